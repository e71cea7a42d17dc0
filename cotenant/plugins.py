"""Policies and interference models of one's own, beside those that ship.

A plug-in is a distribution that names its classes under the entry-point groups below; or a program that calls
the ``register_`` functions before it simulates.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

from placement import policies
from placement.interference import MODELS, InterferenceModel
from placement.model import CotenantError, InvalidSpec, OperationFailed
from placement.policies import OrderPolicy, Placement

ORDERS = "cotenant.orders"
PLACEMENTS = "cotenant.placements"
INTERFERENCE_MODELS = "cotenant.interference_models"
GROUPS = (ORDERS, PLACEMENTS, INTERFERENCE_MODELS)

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


def load_plugins() -> None:
    """Register what the installed plug-ins offer; a second call adds only what is new.

    Raises:
        OperationFailed: a plug-in cannot be imported; the message names it.
        InvalidSpec: it takes a name that is taken.
    """
    for group in GROUPS:
        for entry in entry_points(group=group):
            if (group, entry.name) not in _loaded:
                _register(group, entry)
                _loaded.add((group, entry.name))


def _register(group: str, entry: EntryPoint) -> None:
    try:
        plugin = entry.load()
    except CotenantError:
        raise
    except Exception as error:
        raise OperationFailed(f"plug-in {entry.name!r} ({entry.value}) cannot be loaded: {error}") from error
    if group == ORDERS:
        register_policy(entry.name, order=plugin)
    elif group == PLACEMENTS:
        register_policy(entry.name, placement=plugin)
    else:
        register_model(entry.name, plugin)
