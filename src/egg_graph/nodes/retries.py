"""Retry policies of the nodes: which errors are worth another try.

A kernel that fails is data and raises nothing.
"""

from langgraph.types import RetryPolicy

from egg_graph.schema import EggError, InfrastructureError, ModelUnavailable
from egg_graph.schema.errors import is_lost_connection, is_transient_status


def is_infrastructure(error: Exception) -> bool:
    """True for a failure of the machine: GPU busy, worker lost, disk full."""
    return isinstance(error, InfrastructureError)


def model_may_recover(error: Exception) -> bool:
    """True for HTTP 408, 409, 425, 429 and 5xx, time-outs and lost connections; false for other HTTP errors.

    False also where a team has tried several times itself.
    """
    if isinstance(error, EggError):
        return is_infrastructure(error) and not isinstance(error, ModelUnavailable)
    code = getattr(error, "status_code", None)
    if isinstance(code, int):
        return is_transient_status(code)
    return isinstance(error, TimeoutError) or is_lost_connection(error)


EVALUATOR_RETRY = RetryPolicy(max_attempts=3, initial_interval=0.5, backoff_factor=4.0, retry_on=is_infrastructure)
MODEL_RETRY = RetryPolicy(max_attempts=4, initial_interval=1.0, backoff_factor=3.0, retry_on=model_may_recover)
