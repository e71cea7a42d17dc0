"""Job profiles from YAML: what the interference models need to know of the jobs that a trace names.

One profile a file, as ``submit --profile`` takes it, a folder of such files, or many in one file::

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
_ENDINGS = (".yaml", ".yml", ".json")


def load_profiles(path: Path) -> tuple[Profile, ...]:
    """All profiles of a file, in its order, or of a folder's files, by their names.

    Raises:
        InvalidInput: a file cannot be read, or a profile in it contradicts itself.
    """
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in _ENDINGS)
        return tuple(profile for file in files for profile in _of_file(file))
    return _of_file(path)


def _of_file(path: Path) -> tuple[Profile, ...]:
    try:
        with open_text(path) as text:
            content = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise InvalidSpec(f"{path}:{line}: is not a list of profiles: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSpec(f"{path}:1: is not a list of profiles: {error}") from error
    listed = _listed(path, content)
    try:
        return tuple(_profile(str(name), fields) for name, fields in listed.items())
    except InvalidInput as error:
        raise InvalidSpec(f"{path}: {error}") from error


def _listed(path: Path, content: Any) -> Mapping[Any, Mapping[str, Any]]:
    """The fields of each profile, by its name; a single one may be named after its file."""
    if isinstance(content, dict) and content and "profiles" not in content:
        return {content.get("name", path.stem): {key: content[key] for key in content if key != "name"}}
    listed = content.get("profiles") if isinstance(content, dict) else None
    if not isinstance(listed, dict) or not all(isinstance(fields, dict) for fields in listed.values()):
        raise InvalidSpec(
            f"{path}: needs the fields of one profile such as 'sm_milli: 850', or a mapping 'profiles' from "
            "names to such fields"
        )
    return listed


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
        f"not in {source.name}, so that slowdowns next to them are unknown: profile"
        f"{'' if len(missing) == 1 else 's'} {shown}",
    )
