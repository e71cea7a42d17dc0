"""The core is told the time, draws from what it is given and talks to nobody: read from its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import placement

SOURCE = Path(placement.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))

OTHER_ROOMS = {"simulator", "manager", "agent", "cli", "cotenant"}
FRAMEWORKS = {"sqlalchemy", "alembic", "fastapi", "starlette", "uvicorn", "httpx", "pydantic", "simpy"} | {
    "pynvml",
    "kubernetes",
    "ray",
    "click",
    "rich",
    "yaml",
}
WORLD = {"asyncio", "subprocess", "socket", "threading", "multiprocessing", "time", "datetime"} | {
    "random",
    "secrets",
    "uuid",
}
BANNED_IMPORTS = OTHER_ROOMS | FRAMEWORKS | WORLD
CHANCE = (
    "default_rng",
    "RandomState",
    "seed",
    "rand",
    "random",
    "randint",
    "choice",
    "shuffle",
    "permutation",
)
BANNED_CALLS = {f"numpy.random.{name}" for name in CHANCE} | {
    "os.urandom",
    "os.times",
    "os.environ",
    "os.getenv",
    "builtins.open",
    "builtins.input",
    "builtins.print",
}
SHORT_NAMES = {"np": "numpy"}


def dotted(node: ast.expr) -> str:
    """``numpy.random.rand`` of an attribute chain, ``builtins.open`` of a bare name, else empty."""
    if isinstance(node, ast.Name):
        return SHORT_NAMES.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return ""


def offences(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in BANNED_IMPORTS)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module.split(".")[0] in BANNED_IMPORTS:
                yield module
            yield from (
                f"{module}.{alias.name}" for alias in node.names if f"{module}.{alias.name}" in BANNED_CALLS
            )
        elif isinstance(node, ast.Attribute) and dotted(node) in BANNED_CALLS:
            yield dotted(node)
        elif isinstance(node, ast.Call) and f"builtins.{dotted(node.func)}" in BANNED_CALLS:
            yield dotted(node.func)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_module_of_the_core_is_pure(path):
    assert list(offences(path.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time", ["time"]),
        ("import numpy as np\nimport socket, json", ["socket"]),
        ("def f():\n    from datetime import datetime\n    return datetime.now()", ["datetime"]),
        ("from manager.wire import models", ["manager.wire"]),
        ("def f():\n    import simpy.core", ["simpy.core"]),
        ("import numpy as np\nx = np.random.default_rng()", ["numpy.random.default_rng"]),
        ("import numpy\nx = numpy.random.rand(3)", ["numpy.random.rand"]),
        ("from numpy.random import default_rng", ["numpy.random.default_rng"]),
        ("import os\nx = os.urandom(8)", ["os.urandom"]),
        ("text = open('x').read()", ["open"]),
        ("from placement.policies.random import Random\nfrom placement import trace", []),
        ("import math, heapq, numpy", []),
    ],
)
def test_the_check_itself_sees(source, found):
    assert list(offences(source)) == found


def test_the_whole_core_was_read():
    names = {path.relative_to(SOURCE).as_posix() for path in MODULES}
    assert {"scheduler.py", "model/job.py", "policies/random.py", "interference/additive.py"} <= names
