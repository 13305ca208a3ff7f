"""The capturing child: `python -m egg_graph.expert.capture.child <request.json> <answer.json>`. Imports torch.

The request is `{"source": …, "precision": …}`, the answer `{"graph": …}`, `{"bad_input": …}` or `{"cannot": …}`.
"""

import json
import sys
from pathlib import Path

from egg_graph.evaluator.sandbox.confine import die_with_parent
from egg_graph.expert.capture.errors import CannotCapture
from egg_graph.schema import BadInput


def main(request: str, answer: str) -> None:
    """Export the reference that the request file holds and write the answer file; die if the caller does."""
    die_with_parent()
    from egg_graph.expert.capture.export import export_graph  # loads torch, which takes seconds

    asked = json.loads(Path(request).read_text())
    try:
        reply: dict[str, object] = {"graph": export_graph(asked["source"], asked["precision"]).model_dump(mode="json")}
    except BadInput as error:
        reply = {"bad_input": str(error)}
    except CannotCapture as error:
        reply = {"cannot": str(error)}
    Path(answer).write_text(json.dumps(reply))


if __name__ == "__main__":
    main(*sys.argv[1:])
