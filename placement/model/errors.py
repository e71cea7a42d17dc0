"""The one tree of errors.

Every message says what is wrong, where, and what to do about it; the edges print it as it stands.

    CotenantError
    |- InvalidInput           the caller gave something that cannot be right (exit status 2)
    |  |- InvalidAmount       an amount that is not a number, negative, or out of range
    |  |- InvalidSpec         a job, node, profile or option that contradicts itself
    |  |- UnknownName         a policy, model, GPU model or profile that nobody registered
    |  `- BrokenTrace         a line of a trace that cannot be read
    |- Impossible             a valid request that no node of this cluster could ever hold
    |- NotFound               no such job, node or share
    |- StateError             a move that the lifecycle does not allow
    |- Unreachable            the manager does not answer (exit status 3)
    |- Denied                 the token is missing or wrong
    `- OperationFailed        an action in the world failed (a full disk, a missing program)
"""

from __future__ import annotations


class CotenantError(Exception):
    """Base of all errors that a user may see; ``str(error)`` is one line."""


class InvalidInput(CotenantError):
    """The caller gave something that cannot be right."""


class InvalidAmount(InvalidInput):
    """An amount is not a number, negative, or out of range."""


class InvalidSpec(InvalidInput):
    """A job, node, profile or option contradicts itself."""


class UnknownName(InvalidInput):
    """A policy, model, GPU model or profile that nobody registered."""


class BrokenTrace(InvalidInput):
    """A line of a trace cannot be read; the message starts with ``FILE:LINE:``."""


class Impossible(CotenantError):
    """A valid request that no node of this cluster could ever hold."""


class NotFound(CotenantError):
    """No such job, node or share."""


class StateError(CotenantError):
    """A move that the lifecycle does not allow; the message carries the job's story."""


class Unreachable(CotenantError):
    """The manager does not answer."""


class Denied(CotenantError):
    """The token is missing or wrong."""


class OperationFailed(CotenantError):
    """An action in the world failed: a full disk, a missing program, a refused device call."""
