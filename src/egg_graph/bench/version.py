"""Which egg-graph a results file was made with."""

import importlib.metadata


def version() -> str:
    """Of egg-graph; its source tree, where it runs without being installed."""
    try:
        return importlib.metadata.version("egg-graph")
    except importlib.metadata.PackageNotFoundError:
        return "source tree"
