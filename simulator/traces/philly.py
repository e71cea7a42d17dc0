"""Microsoft Philly, in the table derived for Sia: timestamp,duration,num_gpus,gpu_time,cluster."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Sequence

from placement.model import InvalidAmount, Mode, Request
from placement.trace import TraceRow
from simulator.traces.base import Head, Parse, Source, TraceFormat
from simulator.traces.fields import columns, gang_of, seconds, tenant_name, whole

_NEEDED = ("timestamp", "duration", "num_gpus", "cluster")
MAX_GPUS = 100_000


@functools.cache
def whole_gpus(gpus: int) -> Request:
    """The request of a worker that has its GPUs for itself."""
    return Request(gpus=gpus, modes=frozenset({Mode.EXCLUSIVE}))


def _recognises(head: Head) -> bool:
    return set(_NEEDED) <= set(head.header)


def _timestamp_s(text: str) -> float:
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidAmount(f"timestamp: {text!r} is not a time such as 2017-10-09 06:13:03") from None
    # The table states no time zone; taking UTC keeps every day 24 hours long.
    return moment.replace(tzinfo=moment.tzinfo or datetime.UTC).timestamp()


def _prepare(source: Source) -> Parse:
    place = columns(source.header, _NEEDED)
    at, duration, gpus, cluster = (place[name] for name in _NEEDED)

    def parse(fields: Sequence[str], line: int) -> TraceRow:
        workers, per_worker = gang_of(whole(fields[gpus], "num_gpus", 0, MAX_GPUS))
        return TraceRow(
            job_id=f"philly-{line:06d}",
            submit_s=_timestamp_s(fields[at]),
            request=whole_gpus(per_worker),
            duration_s=seconds(fields[duration], "duration"),
            workers=workers,
            tenant=tenant_name(fields[cluster], "cluster"),
        )

    return parse


PHILLY = TraceFormat(
    "philly", "Microsoft Philly jobs (derived table)", _recognises, _prepare, options=(), from_zero=True
)
