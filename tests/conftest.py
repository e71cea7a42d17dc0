"""What one of several test processes compiles, the others find in the cache.

Without that, two would now and then compile the same; and the cache has no lock: of two that save at once,
the code of one may come to stand where that of the other is looked for.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from placement.cluster import Cluster
from placement.engine import COUNTING, Engine, compile_kernels
from placement.jit import numba
from placement.model import Gpu, Node
from placement.policies import DEFAULT_POLICY, policy_named
from placement.usual import USUAL


@contextmanager
def locked(path: Path, key: int = 0) -> Iterator[None]:
    """Let no other test process in that asks for the same key."""
    with path.open("ab") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 1, key)
        yield


def compile_once() -> None:
    """Have numba wait while another process compiles what it needs, and save when nobody else does."""
    from numba.core.caching import FunctionCache
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.dispatcher import Dispatcher

    compiled, saved = Dispatcher.compile, FunctionCache.save_overload

    def compile_in_turn(self: Any, signature: Any) -> Any:
        cache = self._cache
        if not isinstance(cache, FunctionCache):  # it is never saved
            return compiled(self, signature)
        key = repr(cache._index_key(signature, self.targetctx.codegen())).encode()
        with global_compiler_lock, locked(Path(cache.cache_path, "compiling.lock"), zlib.crc32(key)):
            return compiled(self, signature)

    def save_in_turn(self: Any, signature: Any, data: Any) -> None:
        with locked(Path(self.cache_path, "saving.lock")):
            saved(self, signature, data)

    Dispatcher.compile, FunctionCache.save_overload = compile_in_turn, save_in_turn


if numba is not None:
    compile_once()


@pytest.hookimpl(tryfirst=True)  # else a worker's loop, which is a hook of this name, comes first
def pytest_runtestloop(session: pytest.Session) -> None:
    """Before tests that start managers: those are given less time than the compiler may take."""
    starts_managers = any(item.path.parent.name in ("contract", "integration") for item in session.items)
    if numba is not None and starts_managers:
        if os.environ.get("PYTEST_XDIST_WORKER") == "gw1":
            Engine(COUNTING).warm_up()  # while the other one compiles what comes first below
        compile_kernels(policy_named(DEFAULT_POLICY).placement)
        Cluster(USUAL).set_nodes([Node("n", (Gpu("g", "A100-SXM4-80GB"),))])  # compiles what sums up nodes
