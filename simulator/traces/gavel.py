"""Gavel traces: tab-separated, no header, 10 fields (physical cluster) or 7 (Philly virtual clusters).

A job's length is its steps over the measured rate of (job type, number of GPUs) on the GPU model where it
runs.
"""

from __future__ import annotations

import csv
import functools
import types
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from placement.model import InvalidAmount, InvalidInput, Mode, Request
from placement.trace import TraceRow
from simulator.traces.base import Head, Parse, Source, TraceFormat
from simulator.traces.fields import MAX_SECONDS, columns, seconds, whole
from simulator.traces.philly import MAX_GPUS
from simulator.traces.reading import open_text

_RATE_COLUMNS = ("source", "gpu", "consolidated", "job_type", "scale_factor", "steps_per_s")
_RATES_FILE = "isolated_throughputs.csv"


@dataclass(frozen=True, slots=True)
class _Order:
    """Where the fields lie in one of the two column orders."""

    steps: int
    scale: int
    arrival: int


_ORDERS = {10: _Order(steps=5, scale=6, arrival=9), 7: _Order(steps=4, scale=6, arrival=5)}

Rates = Mapping[tuple[str, int], Mapping[str, float]]
"""(job type, scale factor) -> GPU model -> steps per second."""


def _recognises(head: Head) -> bool:
    fields = head.lines[0].split("\t") if head.lines else []
    return len(fields) in _ORDERS and ("(batch size" in fields[0] or _numeric_tail(fields))


def _numeric_tail(fields: Sequence[str]) -> bool:
    order = _ORDERS[len(fields)]
    try:
        return all(float(fields[index]) >= 0 for index in (order.steps, order.scale, order.arrival))
    except ValueError:
        return False


def _rates_path(source: Source) -> Path:
    """The rates the user names, those beside the trace, or those of the data folder."""
    given = source.options.get("throughputs")
    if given is not None:
        return Path(given)
    folders = [*source.path.resolve().parents[:2]]
    if source.data_folder is not None:
        folders.append(source.data_folder / "gavel")
    for folder in folders:
        if (folder / _RATES_FILE).is_file():
            return folder / _RATES_FILE
    raise InvalidInput(
        f"{source.path}: a Gavel trace needs measured rates ({_RATES_FILE}); give --option throughputs=PATH"
    )


def read_rates(path: Path, measured: str) -> Rates:
    """Rates of one measurement (``simulation`` or ``physical``); 0.0 (does not fit) is left out.

    Raises:
        InvalidInput: the table cannot be read or lacks that measurement.
    """
    rates: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    with open_text(path) as text:
        lines = csv.reader(text)
        try:
            place = columns(next(lines, []), _RATE_COLUMNS)
            of, gpu, together, job_type, scale, rate = (place[name] for name in _RATE_COLUMNS)
            for fields in lines:
                if fields[of] != measured or fields[together] != "1":
                    continue
                steps_per_s = seconds(fields[rate], "steps_per_s")
                if steps_per_s > 0:
                    key = (fields[job_type], whole(fields[scale], "scale_factor", 1, MAX_GPUS))
                    rates[key][fields[gpu]] = steps_per_s
        except (InvalidInput, csv.Error, IndexError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{path}:{max(lines.line_num, 1)}: {error}") from error
    if not rates:
        raise InvalidInput(f"{path}: holds no rates of measurement {measured!r}")
    return rates


@functools.cache
def _one_gpu(models: tuple[str, ...]) -> Request:
    return Request(gpus=1, gpu_models=models, modes=frozenset({Mode.EXCLUSIVE}))


_NEVER: Mapping[str, float] = types.MappingProxyType({})


def _prepare(source: Source) -> Parse:
    rates = read_rates(_rates_path(source), source.options.get("throughputs_source", "simulation"))

    def parse(fields: Sequence[str], line: int) -> TraceRow:
        order = _ORDERS[len(fields)]
        scale = whole(fields[order.scale], "scale_factor", 1, MAX_GPUS)
        steps = whole(fields[order.steps], "total_steps", 0, 1 << 60)
        speeds = rates.get((fields[0], scale), _NEVER)
        durations = {model: steps / rate for model, rate in speeds.items()}
        if max(durations.values(), default=0.0) > MAX_SECONDS:
            raise InvalidAmount(f"total_steps: {fields[order.steps]!r} would take over {MAX_SECONDS:g} s")
        return TraceRow(
            job_id=f"gavel-{line:06d}",
            submit_s=seconds(fields[order.arrival], "arrival_time"),
            request=_one_gpu(tuple(durations)),
            # What a policy may know: the time on the fastest GPU model.
            duration_s=min(durations.values(), default=None),
            duration_by_model_s=durations,
            workers=scale,
        )

    return parse


GAVEL = TraceFormat(
    "gavel",
    "Gavel jobs, both column orders",
    _recognises,
    _prepare,
    options=("throughputs", "throughputs_source"),
    delimiter="\t",
    fields=frozenset(_ORDERS),
)
