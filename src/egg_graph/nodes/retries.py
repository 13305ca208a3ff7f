"""Named retry policies: what is worth another try, and what would only fail again.

A kernel that fails is data and never gets here. Predicates judge by status code and class name, so that no HTTP
library has to be imported.
"""

from langgraph.types import RetryPolicy

from egg_graph.schema import EggError, InfrastructureError

TRANSIENT_CODES = frozenset({408, 409, 425, 429})
TRANSIENT_CLASSES = frozenset(
    {"APIConnectionError", "APITimeoutError", "RateLimitError", "InternalServerError", "TransportError"}
)
"""Base classes of openai, httpx and their kin for errors without a status code."""


def is_infrastructure(error: Exception) -> bool:
    """True for a failure beside the candidate: GPU busy, worker lost, disk full."""
    return isinstance(error, InfrastructureError)


def model_may_recover(error: Exception) -> bool:
    """True for HTTP 408, 409, 425, 429 and 5xx, time-outs and lost connections; false for 400, 401, 404 and our own."""
    if isinstance(error, EggError):
        return is_infrastructure(error)
    code = getattr(error, "status_code", None)
    if isinstance(code, int):
        return code in TRANSIENT_CODES or code >= 500
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    return any(cls.__name__ in TRANSIENT_CLASSES for cls in type(error).__mro__)


EVALUATOR_RETRY = RetryPolicy(max_attempts=3, initial_interval=0.5, backoff_factor=4.0, retry_on=is_infrastructure)
MODEL_RETRY = RetryPolicy(max_attempts=4, initial_interval=1.0, backoff_factor=3.0, retry_on=model_may_recover)
