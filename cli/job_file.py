"""Job files and profile files: YAML that says what the options of `submit` say."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.job_options import JobWishes, first_complaint

if TYPE_CHECKING:
    from manager.wire.models import ProfileSpec

MAX_FILE_BYTES = 1 << 20
_LISTS = ("gpu_model", "mode")


def read_job_file(path: Path) -> JobWishes:
    """The wishes of a job file: a mapping whose keys are the options, with ``_`` or ``-``.

    Raises:
        InvalidSpec: it cannot be read, is no such mapping, or has a key that means nothing.
    """
    from placement.model import InvalidSpec

    known = {field.name for field in fields(JobWishes)}
    wishes: dict[str, Any] = {}
    for key, value in _read_mapping(path).items():
        name = str(key).replace("-", "_")
        if name not in known:
            raise InvalidSpec(f"{path}: unknown key {key!r}; known keys: {', '.join(sorted(known))}")
        if value is not None:
            wishes[name] = _wish(path, name, value)
    if "profile" in wishes and _names_file(wishes["profile"]):
        # A file that a file names lies beside it, wherever the user stands.
        wishes["profile"] = str(path.parent / wishes["profile"])
    return JobWishes(**wishes)


def profile_or_name(text: str) -> tuple[str, ProfileSpec | None]:
    """The name of a profile, and the profile itself where ``text`` names a file.

    Raises:
        InvalidSpec: the file cannot be read, or is no profile.
    """
    if not _names_file(text):
        return text, None
    profile = read_profile_file(Path(text))
    return profile.name, profile


def read_profile_file(path: Path) -> ProfileSpec:
    """The profile in a YAML file; ``memory`` may be written as an amount, ``name`` defaults to the file's.

    Raises:
        InvalidSpec: it cannot be read, or is no profile.
    """
    from pydantic import ValidationError

    from manager.wire.models import ProfileSpec
    from placement.model import CotenantError, InvalidSpec, parse_bytes

    content = {str(key): value for key, value in _read_mapping(path).items()}
    content.setdefault("name", path.stem)
    try:
        if "memory" in content:
            content["memory_bytes"] = parse_bytes(str(content.pop("memory")))
        spec = ProfileSpec.model_validate(content)
        spec.to_profile()
    except ValidationError as error:
        raise InvalidSpec(f"{path}: {first_complaint(error)}") from error
    except CotenantError as error:
        raise InvalidSpec(f"{path}: {error}") from error
    return spec


def _names_file(text: str) -> bool:
    return "/" in text or text.endswith((".yaml", ".yml", ".json"))


def _read_mapping(path: Path) -> Mapping[Any, Any]:
    import yaml

    from placement.model import InvalidSpec

    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidSpec(f"{path}: {error.strerror or error}") from error
    if len(raw) > MAX_FILE_BYTES:
        raise InvalidSpec(f"{path}: larger than {MAX_FILE_BYTES} bytes; is it the right file?")
    try:
        content = yaml.safe_load(raw)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidSpec(f"{path}: not YAML: {error}") from error
    if not isinstance(content, dict):
        raise InvalidSpec(f"{path}: must be a mapping of keys to values, such as 'gpus: 1'")
    return content


def _wish(path: Path, name: str, value: Any) -> Any:
    if name == "command":
        return _split(path, value) if isinstance(value, str) else _words(path, name, value)
    if name in _LISTS:
        return (value,) if isinstance(value, str) else _words(path, name, value)
    if name == "env":
        return _variables(path, value)
    if name == "preemptible":
        return _flag(path, name, value)
    return _word(path, name, value)


def _split(path: Path, command: str) -> tuple[str, ...]:
    """The words of a command as a shell would split them."""
    from placement.model import InvalidSpec

    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise InvalidSpec(
            f"{path}: command: {str(error).lower()}; close the quotation, or write a list of words"
        ) from error


def _words(path: Path, name: str, value: Any) -> tuple[str, ...]:
    from placement.model import InvalidSpec

    if not isinstance(value, list):
        raise InvalidSpec(f"{path}: {name}: must be text or a list")
    return tuple(_word(path, name, item) for item in value)


def _variables(path: Path, value: Any) -> dict[str, str]:
    from placement.model import InvalidSpec

    if not isinstance(value, dict):
        raise InvalidSpec(f"{path}: env: must be a mapping of names to values")
    return {_word(path, "env", name): _word(path, f"env: {name}", text) for name, text in value.items()}


def _flag(path: Path, name: str, value: Any) -> bool:
    from placement.model import InvalidSpec

    if not isinstance(value, bool):
        raise InvalidSpec(f"{path}: {name}: must be true or false")
    return value


def _word(path: Path, name: str, value: Any) -> str:
    """Text as written, or a number as text; what YAML made of a bare yes or date is refused."""
    from placement.model import InvalidSpec

    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidSpec(f"{path}: {name}: {value!r} is neither text nor a number; put it in quotes")
    return str(value)
