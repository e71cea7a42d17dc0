"""Job profiles from YAML: what the interference models need to know of the jobs that a trace names.

::

    profiles:
      resnet50-train: {sm_milli: 850, dram_milli: 550, memory: 22Gi, steps_per_s: {"*": 5.2}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from placement.model import InvalidAmount, InvalidInput, InvalidSpec, Profile, parse_bytes
from placement.trace import TraceRow
from simulator.traces.reading import open_text

SHIPPED = Path(__file__).parent / "data" / "profiles.yaml"
_CHANNELS = ("sm_milli", "dram_milli", "l2_milli", "pcie_milli")
_KEYS = frozenset({*_CHANNELS, "memory", "steps_per_s"})


def load_profiles(path: Path) -> tuple[Profile, ...]:
    """All profiles of a file, in its order.

    Raises:
        InvalidInput: the file cannot be read, or a profile in it contradicts itself.
    """
    try:
        with open_text(path) as text:
            content = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise InvalidSpec(f"{path}:{line}: is not a list of profiles: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSpec(f"{path}:1: is not a list of profiles: {error}") from error
    listed = content.get("profiles") if isinstance(content, dict) else None
    if not isinstance(listed, dict) or not all(isinstance(fields, dict) for fields in listed.values()):
        raise InvalidSpec(
            f"{path}: needs a mapping 'profiles' from names to fields such as {{sm_milli: 850}}"
        )
    try:
        return tuple(_profile(str(name), fields) for name, fields in listed.items())
    except InvalidInput as error:
        raise InvalidSpec(f"{path}: {error}") from error


def _profile(name: str, fields: Mapping[str, Any]) -> Profile:
    unknown = sorted(str(key) for key in set(fields) - _KEYS)
    if unknown:
        raise InvalidSpec(f"profile {name!r}: unknown key {unknown[0]!r}; known: {', '.join(sorted(_KEYS))}")
    rates = fields.get("steps_per_s", {})
    if not isinstance(rates, dict):
        raise InvalidSpec(f"profile {name!r}: steps_per_s: must map GPU models (or '*') to steps per second")
    try:
        steps_per_s = {str(model): float(rate) for model, rate in rates.items()}
    except (TypeError, ValueError) as error:
        raise InvalidAmount(f"profile {name!r}: steps_per_s: {error}") from error
    memory = fields.get("memory")
    return Profile(
        name,
        steps_per_s,
        **{channel: fields.get(channel) for channel in _CHANNELS},
        memory_bytes=parse_bytes(str(memory), f"profile {name!r}: memory") if memory is not None else None,
    )


def profiles_for(rows: Sequence[TraceRow], path: Path | None) -> tuple[tuple[Profile, ...], tuple[str, ...]]:
    """The profiles that a trace names, out of this file or the shipped one, and a notice about missing ones.

    Raises:
        InvalidInput: the file cannot be read.
    """
    named = dict.fromkeys(row.profile for row in rows if row.profile is not None)
    if path is None and not named:
        return (), ()
    source = path if path is not None else SHIPPED
    found = {profile.name: profile for profile in load_profiles(source)}
    missing = [name for name in named if name not in found]
    profiles = tuple(found[name] for name in named if name in found)
    if not missing:
        return profiles, ()
    shown = ", ".join(missing[:5]) + (", …" if len(missing) > 5 else "")
    return profiles, (
        f"{len(missing)} profiles are not in {source.name}; slowdowns next to them are unknown: {shown}",
    )
