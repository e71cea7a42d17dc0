"""Amounts as people write them, turned into integers in base units and back."""

from __future__ import annotations

import math
import re

from placement.model.errors import InvalidAmount

WHOLE_GPU_MILLI = 1000
"""Compute of one whole GPU, in thousandths of its SMs."""

MAX_BYTES = 1 << 50
"""Largest amount of memory that is accepted; anything above is a typing mistake and would overflow int64."""

_SUFFIX_BYTES = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 1 << 10,
    "mi": 1 << 20,
    "gi": 1 << 30,
    "ti": 1 << 40,
}
_LARGEST = 1e18
"""No amount that anyone means is larger, whatever its unit; its product with any unit is finite."""


_SMALLEST_PLAIN = 1 << 20
"""A plain number below this is no amount of memory that anyone means in bytes."""

_NUMBER = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<suffix>[a-zA-Z%]*)", re.ASCII)
_DURATION_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def is_finite(value: float) -> bool:
    """Whether a number is finite and no whole number beyond every float."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _split(text: str, what: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise InvalidAmount(
            f"{what}: {text!r} is not an amount; write a number such as 10 or 1.5 with its unit"
        )
    number = float(match["number"])
    if number > _LARGEST:
        raise InvalidAmount(f"{what}: {text.strip()[:40]!r} is too large")
    return number, match["suffix"].lower()


def parse_bytes(text: str, what: str = "memory") -> int:
    """Bytes from ``10Gi``, ``512Mi``, ``1.5G`` or a plain number.

    Raises:
        InvalidAmount: not a number, negative, zero, unknown unit, or beyond :data:`MAX_BYTES`.
    """
    number, suffix = _split(text, what)
    unit = _SUFFIX_BYTES.get(suffix.removesuffix("b") if suffix != "b" else "")
    if unit is None:
        raise InvalidAmount(f"{what}: unknown unit in {text!r}; use Ki, Mi, Gi, Ti or K, M, G, T")
    if not suffix and 0 < number < _SMALLEST_PLAIN:
        raise InvalidAmount(
            f"{what}: {text.strip()!r} would be bytes; write its unit, for example {number:g}Gi"
        )
    amount = round(number * unit)
    if not 0 < amount <= MAX_BYTES:
        raise InvalidAmount(
            f"{what}: {text!r} is out of range; it must be above 0 and at most {MAX_BYTES} bytes"
        )
    return amount


def parse_compute(text: str, what: str = "compute") -> int | None:
    """Thousandths of a GPU from ``30%``, ``0.3`` or ``300m``; ``auto`` gives None.

    Raises:
        InvalidAmount: not a number, 0 or below, or above a whole GPU.
    """
    if text.strip().lower() == "auto":
        return None
    number, suffix = _split(text, what)
    factor = {"%": 10.0, "m": 1.0, "": 1000.0}.get(suffix)
    if factor is None:
        raise InvalidAmount(f"{what}: unknown unit in {text!r}; write 30%, 300m, 0.3 or auto")
    milli = round(number * factor)
    if milli < 1 or number * factor > WHOLE_GPU_MILLI:
        raise InvalidAmount(f"{what}: {text!r} is out of range; it must be above 0 and at most 100%")
    return milli


def parse_seconds(text: str, what: str = "time") -> float:
    """Seconds from ``90``, ``90s``, ``15m``, ``2h`` or ``1d``.

    Raises:
        InvalidAmount: not a number, 0 or below, or an unknown unit.
    """
    number, suffix = _split(text, what)
    unit = _DURATION_S.get(suffix)
    if unit is None:
        raise InvalidAmount(f"{what}: unknown unit in {text!r}; use s, m, h or d")
    if number <= 0:
        raise InvalidAmount(f"{what}: {text!r} must be above 0")
    return number * unit


def format_bytes(amount: int) -> str:
    """The shortest exact-looking form: ``10Gi``, ``1.5Gi``, ``800``."""
    for suffix, unit in (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if amount >= unit:
            value = amount / unit
            return f"{value:.4g}{suffix}" if value < 10_000 else f"{round(value)}{suffix}"
    return str(amount)


def format_milli(milli: int) -> str:
    """Thousandths of a GPU as a percentage: ``300`` -> ``30%``."""
    return f"{milli / 10:g}%"
