"""The optional compiler: numba where the extra ``fast`` is installed, else nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

numba: Any
try:
    import numba
    import numba.extending
except ImportError:  # the extra "fast" is not installed
    numba = None


def register_jitable(function: F) -> F:
    """Let compiled functions call this one too; it stays plain Python for everybody else."""
    return function if numba is None else cast(F, numba.extending.register_jitable(function))


def inlined(function: F) -> F:
    """The same for what is called so often that passing its arguments would cost more than what it does."""
    return function if numba is None else cast(F, numba.extending.register_jitable(inline="always")(function))


def compiled(function: F) -> F | None:
    """A function compiled on first call and cached on disk; None without the compiler."""
    return None if numba is None else cast(F, numba.njit(cache=True)(function))
