"""Fields of a trace line, turned into values; every failure says which field and why."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from placement.model import BrokenTrace, InvalidAmount, InvalidInput, InvalidSpec

JOB_ID = re.compile(r"[A-Za-z0-9._-]{1,63}", re.ASCII)
MAX_TENANT_CHARACTERS = 253
MAX_SECONDS = 1e12
"""Some 30,000 years; sums of larger times would lose whole seconds."""
GPUS_PER_WORKER = 8
"""A job that asks for more GPUs than this becomes a gang of workers of this many."""


def whole(text: str, what: str, low: int, high: int) -> int:
    """A whole number from ``low`` to ``high``; ``3`` and ``3.0`` are whole, ``3.5`` is not.

    Raises:
        InvalidAmount: not a whole number or out of range.
    """
    if text.isascii() and text.isdecimal() and len(text) <= 18:
        value = int(text)
    else:
        number = _number(text, what)
        if number != int(number):
            raise InvalidAmount(f"{what}: {text!r} is not a whole number")
        value = int(number)
    if not low <= value <= high:
        raise InvalidAmount(f"{what}: {text!r} must be from {low} to {high}")
    return value


def seconds(text: str, what: str) -> float:
    """Seconds, from 0 to :data:`MAX_SECONDS`.

    Raises:
        InvalidAmount: not a finite number, or out of range.
    """
    value = _number(text, what)
    if value < 0:
        raise InvalidAmount(f"{what}: {text!r} must be at least 0")
    if value > MAX_SECONDS:
        raise InvalidAmount(f"{what}: {text!r} must be at most {MAX_SECONDS:g}")
    return value


def _number(text: str, what: str) -> float:
    if not text.strip():
        raise InvalidAmount(f"{what}: is empty; a number is needed")
    try:
        value = float(text)
    except ValueError:
        raise InvalidAmount(f"{what}: {text!r} is not a number") from None
    if not math.isfinite(value) or "_" in text:
        raise InvalidAmount(f"{what}: {text!r} is not a finite number")
    return value


def identifier(text: str, what: str) -> str:
    """A job id that every part of the system accepts.

    Raises:
        InvalidSpec: other characters than letters, digits, dot, underscore, hyphen, or longer than 63.
    """
    if JOB_ID.fullmatch(text) is None:
        raise InvalidSpec(f"{what}: {text!r} must be 1 to 63 letters, digits, '.', '_' or '-'")
    return text


def tenant_name(text: str, what: str) -> str:
    """A tenant's name; empty means ``default``.

    Raises:
        InvalidSpec: unprintable characters or too long.
    """
    if not text:
        return "default"
    if not text.isprintable() or len(text) > MAX_TENANT_CHARACTERS:
        raise InvalidSpec(f"{what}: {text!r} must be at most {MAX_TENANT_CHARACTERS} printable characters")
    return text


def gang_of(gpus: int) -> tuple[int, int]:
    """Workers and GPUs per worker of a job that states only how many GPUs it wants."""
    if gpus <= GPUS_PER_WORKER:
        return 1, gpus
    return -(-gpus // GPUS_PER_WORKER), GPUS_PER_WORKER


def columns(header: Sequence[str], needed: Sequence[str]) -> Mapping[str, int]:
    """Where each column of a header lies.

    Raises:
        BrokenTrace: a needed column is missing or a name stands twice.
    """
    places = {name: index for index, name in enumerate(header)}
    missing = [name for name in needed if name not in places]
    if missing:
        raise BrokenTrace(f"the header lacks {', '.join(missing)}; it has {', '.join(header)}")
    if len(places) != len(header):
        twice = next(name for name in header if list(header).count(name) > 1)
        raise BrokenTrace(f"the header names {twice!r} twice")
    return places


def flag(text: str, what: str) -> bool:
    """True or false as people write it.

    Raises:
        InvalidInput: neither.
    """
    value = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(
        text.strip().lower()
    )
    if value is None:
        raise InvalidInput(f"{what}: {text!r} must be true or false")
    return value
