"""Errors a caller can meet. Each carries one line: what is wrong, where, how to mend it.

A kernel that fails is never an exception: it is data in an `Evaluation`. Exceptions are for bad input
and for infrastructure.
"""


class EggError(Exception):
    """Base of every error that egg-graph raises on purpose."""


class BadInput(EggError, ValueError):
    """The caller's task, option or file is wrong; the message says how to mend it."""


class ModelRefused(EggError):
    """The model's endpoint rejected the request (HTTP 4xx); repeating it would change nothing."""


class InfrastructureError(EggError):
    """Something beside the candidate failed (GPU busy, worker lost, disk full); worth another try."""
