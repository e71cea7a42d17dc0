"""Policies and interference models of one's own, beside those that ship.

A plug-in is a distribution that names its classes under the entry-point groups below; or a program that calls
the ``register_`` functions before it simulates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import NoReturn

from placement import policies
from placement.interference import MODELS, InterferenceModel
from placement.model import InvalidSpec, OperationFailed
from placement.policies import OrderPolicy, Placement

ORDERS = "cotenant.orders"
PLACEMENTS = "cotenant.placements"
INTERFERENCE_MODELS = "cotenant.interference_models"
GROUPS = (ORDERS, PLACEMENTS, INTERFERENCE_MODELS)

refused: list[tuple[str, EntryPoint, str]] = []
"""Group, entry point and reason of each plug-in whose name is taken or none: nobody can ask for it."""
_loaded: set[tuple[str, str]] = set()


def register_policy(
    name: str,
    *,
    order: Callable[[], OrderPolicy] | None = None,
    placement: Callable[[], Placement] | None = None,
) -> None:
    """Add an order of jobs or a preference among places under a new name.

    Raises:
        InvalidSpec: the name is taken or holds a ``+``.
    """
    policies.register(name, order=order, placement=placement)


def register_model(name: str, build: Callable[[], InterferenceModel]) -> None:
    """Add an interference model under a new name.

    Raises:
        InvalidSpec: the name is taken.
    """
    if name in MODELS:
        raise InvalidSpec(f"interference model name {name!r} is taken")
    MODELS[name] = build


@dataclass(frozen=True, slots=True)
class Broken:
    """Stands for a plug-in that cannot be loaded: who asks for it by its name fails, and nobody else."""

    reason: str

    def __call__(self) -> NoReturn:
        """Raises OperationFailed: the reason."""
        raise OperationFailed(self.reason)


def load_plugins() -> None:
    """Register what the installed plug-ins offer; a second call adds only what is new.

    One that cannot be loaded is :class:`Broken`, one that cannot have its name is ``refused``.
    """
    for group in GROUPS:
        for entry in entry_points(group=group):
            if (group, entry.name) not in _loaded:
                _loaded.add((group, entry.name))
                _register(group, entry)


def _register(group: str, entry: EntryPoint) -> None:
    what = f"plug-in {entry.name!r} ({entry.value})"
    try:
        plugin = entry.load()
    except (Exception, SystemExit) as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        plugin = Broken(f"{what} cannot be loaded: {said}; mend or uninstall it")
    try:
        if group == ORDERS:
            register_policy(entry.name, order=plugin)
        elif group == PLACEMENTS:
            register_policy(entry.name, placement=plugin)
        else:
            register_model(entry.name, plugin)
    except InvalidSpec as error:
        refused.append((group, entry, f"{what}: {error}"))
