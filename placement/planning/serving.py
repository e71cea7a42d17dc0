"""How one service is served: the best slice, batch and number of MPS processes, and how many of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from placement.model import InvalidAmount

LATENCY_SHARE = 0.9 / 2
"""A batch may take this share of the latency goal: half is for waiting, a tenth is kept as margin."""


@dataclass(frozen=True, slots=True)
class ServingPoint:
    """One measured way to serve: ``processes`` MPS clients with this batch size in a slice of this size.

    ``throughput_per_s`` counts the requests of all processes together.
    """

    slices: int
    batch: int
    processes: int
    throughput_per_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Service:
    """A rate to serve within a latency, and the points to choose from: state only what may be used."""

    name: str
    rate_per_s: float
    slo_s: float
    points: tuple[ServingPoint, ...]


@dataclass(frozen=True, slots=True)
class SegmentChoice:
    """``count`` segments of the best point and one smallest that serves the rest.

    ``by_size`` holds, for each slice size, the point of most throughput that meets the latency goal.
    """

    best: ServingPoint
    count: int
    rest: ServingPoint
    by_size: Mapping[int, ServingPoint]

    def segments(self) -> tuple[ServingPoint, ...]:
        """Everything that serves the rate."""
        return (*(self.best,) * self.count, self.rest)


def choose_segments(service: Service) -> SegmentChoice | None:
    """The segments of one service, None if no point meets its latency goal (ParvaGPU, SC'24).

    Best is the most throughput per compute slice, of equals the fewest slices, then the smallest batch.

    Raises:
        InvalidAmount: a rate or a latency goal that is not above 0.
    """
    if service.rate_per_s <= 0 or service.slo_s <= 0:
        raise InvalidAmount(f"service {service.name!r}: its rate and its latency goal must be above 0")
    points = sorted(service.points, key=lambda p: (p.slices, p.batch, p.processes))
    timely = [p for p in points if p.throughput_per_s > 0 and p.latency_s < LATENCY_SHARE * service.slo_s]
    if not timely:
        return None
    by_size: dict[int, ServingPoint] = {}
    for point in timely:
        if point.slices not in by_size or point.throughput_per_s > by_size[point.slices].throughput_per_s:
            by_size[point.slices] = point
    best = max(by_size.values(), key=lambda p: p.throughput_per_s / p.slices)
    count = math.ceil(service.rate_per_s / best.throughput_per_s) - 1
    left = service.rate_per_s - count * best.throughput_per_s
    rest = next((p for p in by_size.values() if p.throughput_per_s >= left), best)
    return SegmentChoice(best, count, rest, by_size)


def smaller_segments(choice: SegmentChoice, rate_per_s: float) -> list[ServingPoint] | None:
    """Slices of 2 and 1 that serve this rate, None if the service has none that is in time.

    Pairs are used where one serves more than two single slices do, and singles for what is left.
    """
    pair, single = choice.by_size.get(2), choice.by_size.get(1)
    if single is None:
        return None if pair is None else [pair] * _times(rate_per_s, pair)
    if pair is None or pair.throughput_per_s / 2 <= single.throughput_per_s:
        return [single] * _times(rate_per_s, single)
    pairs = max(math.floor(rate_per_s / pair.throughput_per_s), 0)
    left = rate_per_s - pairs * pair.throughput_per_s
    return [pair] * pairs + [single] * _times(left, single)


def _times(rate_per_s: float, point: ServingPoint) -> int:
    return max(math.ceil(rate_per_s / point.throughput_per_s), 0)
