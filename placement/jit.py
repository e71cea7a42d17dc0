"""The optional compiler: numba where the extra ``fast`` is installed, else nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

numba: Any
try:
    import numba
    import numba.core.event
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


@contextmanager
def telling(tell: Callable[[], None]) -> Iterator[None]:
    """Call ``tell`` once, before the first function is compiled that the cache does not hold."""
    if numba is None:
        yield
        return

    class Compiling(numba.core.event.Listener):  # type: ignore[misc]
        told = False

        def on_start(self, event: object) -> None:
            if not self.told:
                self.told = True
                tell()

        def on_end(self, event: object) -> None:
            pass

    with numba.core.event.install_listener("numba:compile", Compiling()):
        yield
