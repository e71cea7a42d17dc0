"""The job list of Tiresias: job_id,num_gpu,submit_time,iterations,model_name,duration,interval; seconds."""

from __future__ import annotations

from collections.abc import Sequence

from placement.trace import TraceRow
from simulator.traces.base import Head, Parse, Source, TraceFormat
from simulator.traces.fields import columns, gang_of, identifier, seconds, whole
from simulator.traces.philly import MAX_GPUS, whole_gpus

_NEEDED = ("job_id", "num_gpu", "submit_time", "duration")
_NOT_OURS = "iteration_time"
"""Muri's lists look alike, but count milliseconds; this column is theirs."""


def _recognises(head: Head) -> bool:
    return set(_NEEDED) <= set(head.header) and _NOT_OURS not in head.header


def _prepare(source: Source) -> Parse:
    place = columns(source.header, _NEEDED)
    job_id, gpus, submit, duration = (place[name] for name in _NEEDED)

    def parse(fields: Sequence[str], line: int) -> TraceRow:
        workers, per_worker = gang_of(whole(fields[gpus], "num_gpu", 0, MAX_GPUS))
        return TraceRow(
            job_id=identifier(fields[job_id], "job_id"),
            submit_s=seconds(fields[submit], "submit_time"),
            request=whole_gpus(per_worker),
            duration_s=seconds(fields[duration], "duration"),
            workers=workers,
        )

    return parse


TIRESIAS = TraceFormat("tiresias", "Tiresias job list", _recognises, _prepare)
