"""Why a reference has no graph."""


class CannotCapture(Exception):
    """The reference runs but cannot be exported as a graph, for example for data-dependent control flow."""
