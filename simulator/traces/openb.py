"""Pods of Alibaba's openb cluster (2023): fractions of GPUs, CPU and RAM.

Without departures each pod is decided once, in the order of creation, and stays for good: the packing
experiment of the trace's authors.  The option ``departures=true`` uses the times instead.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from placement.model import InvalidInput, InvalidSpec, Mode, Request
from placement.trace import TraceRow
from simulator.traces.base import Head, Parse, Source, TraceFormat
from simulator.traces.fields import columns, flag, identifier, seconds, whole

_NEEDED = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_TIMES = ("creation_time", "deletion_time", "scheduled_time")
_MODES = frozenset({Mode.EXCLUSIVE, Mode.TIMESLICE})
_MIB = 1 << 20
_MAX = 1 << 40


def _recognises(head: Head) -> bool:
    return set(_NEEDED) <= set(head.header)


@functools.lru_cache(maxsize=65_536)
def _request(gpus: int, milli: int, models: str, cpu_milli: int, ram_bytes: int) -> Request:
    wanted = dict.fromkeys(name for name in models.split("|") if name)
    return Request(
        gpus=gpus,
        compute_milli=milli if gpus else None,
        gpu_models=tuple(wanted),
        modes=_MODES,
        cpu_milli=cpu_milli,
        ram_bytes=ram_bytes,
    )


def _duration_s(created: str, deleted: str, scheduled: str) -> float | None:
    """How long the pod ran; one that was never scheduled would have run from its creation."""
    if not deleted:
        return None
    begin_s = seconds(scheduled or created, "scheduled_time" if scheduled else "creation_time")
    end_s = seconds(deleted, "deletion_time")
    if end_s < begin_s:
        raise InvalidSpec(f"deletion_time: {deleted!r} lies before the pod began at {scheduled or created!r}")
    return end_s - begin_s


def _checked(gpus: int, milli: int) -> None:
    if gpus and milli == 0:
        raise InvalidSpec(f"gpu_milli: is 0, but num_gpu is {gpus}")
    if not gpus and milli:
        raise InvalidSpec(f"gpu_milli: is {milli}, but num_gpu is 0")
    if gpus > 1 and milli != 1000:
        raise InvalidSpec(f"gpu_milli: is {milli}, but {gpus} GPUs can only be asked for whole (1000)")


def _prepare(source: Source) -> Parse:
    place = columns(source.header, _NEEDED)
    name, cpu, ram, count, milli = (place[column] for column in _NEEDED)
    models = place.get("gpu_spec")
    created, deleted, scheduled = (place.get(column) for column in _TIMES)
    departures = flag(source.options.get("departures", "false"), "option departures")
    if departures and (created is None or deleted is None or scheduled is None):
        raise InvalidInput(f"option departures: {source.path} has no columns {', '.join(_TIMES)}")

    def parse(fields: Sequence[str], line: int) -> TraceRow:
        gpus, share = whole(fields[count], "num_gpu", 0, 1024), whole(fields[milli], "gpu_milli", 0, 1000)
        _checked(gpus, share)
        duration_s = None
        if departures and created is not None and deleted is not None and scheduled is not None:
            duration_s = _duration_s(fields[created], fields[deleted], fields[scheduled])
        return TraceRow(
            job_id=identifier(fields[name], "name"),
            # Lists without times are decided in the order of their lines.
            submit_s=seconds(fields[created], "creation_time") if created is not None else float(line),
            request=_request(
                gpus,
                share,
                fields[models] if models is not None else "",
                whole(fields[cpu], "cpu_milli", 0, _MAX),
                whole(fields[ram], "memory_mib", 0, _MAX) * _MIB,
            ),
            duration_s=duration_s,
            immediate=not departures,
        )

    return parse


OPENB = TraceFormat("openb", "Alibaba openb pods", _recognises, _prepare, options=("departures",))
