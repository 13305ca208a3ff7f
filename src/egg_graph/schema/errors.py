"""The errors that egg-graph raises. Each carries one line: what is wrong, where, and how to mend it.

A kernel that fails is never an exception: it is data in an `Evaluation`. Exceptions are for bad input, for a model's
endpoint and for the machine.
"""


class EggError(Exception):
    """Base class of every error that egg-graph raises on purpose."""


class BadInput(EggError, ValueError):
    """The caller's task, option or file is wrong; the message says how to mend it."""


class ModelNotLoaded(BadInput):
    """No chat model can be made of a name: its provider, package, key or folder is missing."""


class ModelRefused(EggError):
    """The model's endpoint rejected the request (HTTP 4xx); repeating it would change nothing."""


class InfrastructureError(EggError):
    """The machine failed (GPU busy, worker lost, disk full), not the candidate; another try may succeed."""


class RunHeld(InfrastructureError):
    """Another process, or another thread of this one, is at work on the run."""


class AnswerPending(EggError):
    """An evaluator elsewhere has not answered yet; the question is kept there. Run or resume again, and it is taken."""


class ModelUnavailable(InfrastructureError):
    """The model's endpoint stayed busy, broken or silent, in spite of several tries."""


_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
_TRANSIENT_CLASSES = frozenset(
    {"APIConnectionError", "APITimeoutError", "RateLimitError", "InternalServerError", "TransportError"}
)
"""Base classes of openai's and httpx's errors. Compared by name, so that no HTTP library is imported."""


def is_transient_status(status: int) -> bool:
    """True for the HTTP statuses that another try may cure: 408, 409, 425, 429 and 5xx."""
    return status in _TRANSIENT_STATUS or status >= 500


def is_lost_connection(error: Exception) -> bool:
    """True for a connection that broke or was never made, as sockets and HTTP libraries report it.

    Also for one that was kept open in an event loop that has ended: the next try opens another.
    """
    names = {cls.__name__ for cls in type(error).__mro__}
    stale = isinstance(error, RuntimeError) and str(error) == "Event loop is closed"
    return isinstance(error, ConnectionError) or stale or bool(names & _TRANSIENT_CLASSES)
