"""ParvaGPU: services on MIG slices with MPS inside, on as few GPUs as its two stages find."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from placement.model import UnknownName
from placement.partition import Instance, MigGeometry, state_of
from placement.planning.serving import SegmentChoice, Service, ServingPoint, choose_segments, smaller_segments

STARTS_BY_SIZE: Mapping[int, tuple[int, ...]] = {
    7: (0,),
    4: (0,),
    3: (4,),
    2: (0, 4, 2),
    1: (0, 6, 4, 1, 2, 3, 5),
}
"""Where ParvaGPU puts a slice, best first; a start that the hardware forbids there is passed over."""

LITTLE_USED_SLICES = 4
"""A GPU with no more compute slices in use than this is broken up in the second stage."""


@dataclass(frozen=True, slots=True)
class PlacedSegment:
    """One slice of a GPU of the plan and the service in it."""

    gpu: int
    instance: Instance
    service: str
    point: ServingPoint


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """All segments in the order of GPUs and starts, and the services that no point serves in time."""

    segments: tuple[PlacedSegment, ...]
    gpus: int
    unserved: tuple[str, ...]

    def throughput_per_s(self) -> dict[str, float]:
        """What the plan serves, by service."""
        served: dict[str, float] = defaultdict(float)
        for segment in self.segments:
            served[segment.service] += segment.point.throughput_per_s
        return dict(served)


def plan_services(geometry: MigGeometry, services: Sequence[Service]) -> ServingPlan:
    """Where the segments of all services go, GPUs numbered from 0 (ParvaGPU, SC'24, and its published code).

    First all segments are placed, the large ones first, each on the fullest GPU that has room.
    Then GPUs with four or fewer slices in use are broken up, the last one first: what they served moves in
    slices of 2 and 1 to wherever these fit best.  Unlike in the published code, a second stage that takes
    more GPUs is undone, no slice stands where the hardware forbids it, and none is broken up twice in a row.

    Raises:
        InvalidAmount: a rate or a latency goal that is not above 0.
        UnknownName: a slice size that this GPU does not have.
    """
    choices = {service.name: choose_segments(service) for service in services}
    served = {name: choice for name, choice in choices.items() if choice is not None}
    first = _Board(geometry)
    first.place((name, point) for name, choice in served.items() for point in choice.segments())
    second = first.copy()
    _break_up(second, served)
    board = min((second, first), key=_Board.gpus_used)
    unserved = tuple(name for name, choice in choices.items() if choice is None)
    return ServingPlan(board.placed(), board.gpus_used(), unserved)


def _break_up(board: _Board, served: Mapping[str, SegmentChoice]) -> None:
    """Move what little-used GPUs serve, in small slices; what these serve in excess counts for the next."""
    owed: dict[str, float] = defaultdict(float)
    for gpu in reversed(range(len(board.gpus))):
        if board.used(gpu) > LITTLE_USED_SLICES:
            continue
        for start in sorted(board.gpus[gpu]):
            service, point = board.gpus[gpu][start]
            pieces = smaller_segments(served[service], owed[service] + point.throughput_per_s)
            if pieces is None:
                continue
            del board.gpus[gpu][start]
            owed[service] += point.throughput_per_s - sum(piece.throughput_per_s for piece in pieces)
            board.place((service, piece) for piece in pieces)


class _Board:
    """GPUs and the segments on them, by start, while a plan is made."""

    def __init__(self, geometry: MigGeometry) -> None:
        self._geometry = geometry
        self.gpus: list[dict[int, tuple[str, ServingPoint]]] = []

    def copy(self) -> _Board:
        """Another board with the same segments."""
        other = _Board(self._geometry)
        other.gpus = [dict(held) for held in self.gpus]
        return other

    def used(self, gpu: int) -> int:
        """Compute slices in use on a GPU."""
        return sum(point.slices for _service, point in self.gpus[gpu].values())

    def gpus_used(self) -> int:
        """GPUs with anything on them."""
        return sum(bool(held) for held in self.gpus)

    def place(self, segments: Iterable[tuple[str, ServingPoint]]) -> None:
        """Put each segment, the large ones first, on the fullest GPU that has room, of equals the first."""
        for service, point in sorted(segments, key=lambda segment: -segment[1].slices):
            self.gpus.append({})
            starts = [self._start(held, point.slices) for held in self.gpus]
            spots = [(-self.used(gpu), gpu, start) for gpu, start in enumerate(starts) if start is not None]
            _used, gpu, start = min(spots)
            self.gpus[gpu][start] = service, point
            if not self.gpus[-1]:
                self.gpus.pop()

    def placed(self) -> tuple[PlacedSegment, ...]:
        """Everything on the board; empty GPUs do not count."""
        return tuple(
            PlacedSegment(gpu, self._instance(held[start][1].slices, start), *held[start])
            for gpu, held in enumerate(held for held in self.gpus if held)
            for start in sorted(held)
        )

    def _start(self, held: Mapping[int, tuple[str, ServingPoint]], slices: int) -> int | None:
        there = [self._instance(point.slices, start) for start, (_service, point) in held.items()]
        starts = STARTS_BY_SIZE.get(slices, range(self._geometry.memory_slices))
        legal = (
            s for s in starts if state_of(self._geometry, [*there, self._instance(slices, s)]) is not None
        )
        return next(legal, None)

    def _instance(self, slices: int, start: int) -> Instance:
        for cut in self._geometry.profiles:
            if cut.compute_slices == slices and not cut.media:
                return Instance(cut.name, start)
        raise UnknownName(f"no MIG profile of {slices} compute slices here; leave such points out")
