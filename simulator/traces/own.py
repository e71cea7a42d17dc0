"""Our own CSV: at least job_id,submit_s,duration_s,gpus; other known columns are optional."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from placement.model import Devices, InvalidSpec, JobKind, Level, Mode, Request, Together, parse_bytes
from placement.model.job import ANY_MODE, MAX_GPUS_PER_WORKER, MAX_WORKERS
from placement.trace import TraceRow
from simulator.traces.base import Head, Parse, Source, TraceFormat
from simulator.traces.fields import columns, gang_of, identifier, seconds, tenant_name, whole
from simulator.traces.philly import MAX_GPUS

NEEDED = ("job_id", "submit_s", "duration_s", "gpus")
OPTIONAL = (
    "tenant",
    "workers",
    "compute_milli",
    "memory_bytes",
    "gpu_model",
    "max_slowdown",
    "kind",
    "profile",
    "devices",
    "together",
)
_WHOLE = frozenset({Mode.EXCLUSIVE})


def _recognises(head: Head) -> bool:
    return set(NEEDED) <= set(head.header)


_ASKED = ("compute_milli", "memory_bytes", "gpu_model", "max_slowdown", "devices", "together")
"""The columns that make up a request, in the order in which :func:`_request` takes them."""


@functools.lru_cache(maxsize=65_536)
def _request(gpus: int, asked: tuple[str, ...]) -> Request:
    """One worker's request; who states neither compute nor memory asks for whole GPUs."""
    compute, memory, models, slowdown, devices, together = asked
    shared = bool(compute or memory)
    return Request(
        gpus=gpus,
        compute_milli=whole(compute, "compute_milli", 1, 1000) if compute else None,
        memory_bytes=parse_bytes(memory, "memory_bytes") if memory else None,
        gpu_models=tuple(dict.fromkeys(name.strip() for name in models.split("|") if name.strip())),
        modes=ANY_MODE if shared else _WHOLE,
        max_slowdown=_at_least_one(slowdown) if slowdown else None,
        devices=_one_of(Devices, "devices", devices) if devices else Devices.DISTINCT,
        together=_together(together) if together else None,
    )


def _together(text: str) -> Together:
    """A level, and ``|required`` after it where it must be."""
    level, bar, rest = text.partition("|")
    if bar and rest != "required":
        raise InvalidSpec(f"together: {text!r} must be a level, or a level and |required")
    return Together(_one_of(Level, "together", level), required=bool(bar))


def _at_least_one(text: str) -> float:
    value = seconds(text, "max_slowdown")
    if not math.isfinite(value) or value < 1:
        raise InvalidSpec(f"max_slowdown: {text!r} must be at least 1")
    return value


def _kind(text: str) -> JobKind:
    return _one_of(JobKind, "kind", text) if text else JobKind.TRAINING


_Choice = TypeVar("_Choice", bound=enum.Enum)


def _one_of(kinds: type[_Choice], what: str, text: str) -> _Choice:
    try:
        return kinds(text)
    except ValueError:
        raise InvalidSpec(
            f"{what}: {text!r} must be one of {', '.join(kind.value for kind in kinds)}"
        ) from None


def _getter(place: Mapping[str, int], name: str) -> Callable[[Sequence[str]], str]:
    index = place.get(name)
    return (lambda fields: fields[index].strip()) if index is not None else (lambda fields: "")


def _size(gpus: str, workers: str) -> tuple[int, int]:
    """Workers and GPUs per worker; without workers, many GPUs become a gang of 8 each."""
    if not workers:
        return gang_of(whole(gpus, "gpus", 0, MAX_GPUS))
    return whole(workers, "workers", 1, MAX_WORKERS), whole(gpus, "gpus", 0, MAX_GPUS_PER_WORKER)


def _prepare(source: Source) -> Parse:
    place = columns(source.header, NEEDED)
    job_id, submit, duration, gpus = (place[name] for name in NEEDED)
    tenant, workers, kind, profile = (
        _getter(place, name) for name in ("tenant", "workers", "kind", "profile")
    )
    asked = [_getter(place, name) for name in _ASKED]
    ignored = [name for name in source.header if name not in NEEDED and name not in OPTIONAL]
    if ignored:
        source.notes.notices.append(
            f"{source.path}: columns without a meaning here are ignored: {', '.join(ignored)}"
        )

    def parse(fields: Sequence[str], line: int) -> TraceRow:
        count, per_worker = _size(fields[gpus].strip(), workers(fields))
        length = fields[duration].strip()
        return TraceRow(
            job_id=identifier(fields[job_id].strip(), "job_id"),
            submit_s=seconds(fields[submit], "submit_s"),
            request=_request(per_worker, tuple([get(fields) for get in asked])),
            duration_s=seconds(length, "duration_s") if length else None,
            workers=count,
            tenant=tenant_name(tenant(fields), "tenant"),
            kind=_kind(kind(fields)),
            profile=profile(fields) or None,
        )

    return parse


OWN = TraceFormat("cotenant", "Cotenant's own CSV", _recognises, _prepare)
