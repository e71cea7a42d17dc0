"""What a placement takes from others, written down from docs/decisions/0010: nothing of the core's tables.

Only the dual prices of packing and the levels of prices are taken from the core: the first have tests of
their own, the second depend on when they were looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from placement.mix import Kinds, Mix, UsualRequest
from placement.model import Mode, Request
from placement.packing_duals import residual_worth
from placement.partition import Need, geometry_of, needs_of
from tests.property.plain_books import SHARED, Slot, compute_slices, most_clients, profiles_of

CPU_RATIOS = ((800, 8), (900, 8), (1000, 8), (1400, 1))
RAM_RATIO = (1000, 8)
"""Thousandths of what is usual per GPU, and their weights in eighths."""


@dataclass(frozen=True)
class Standing:
    """A node before or after a placement; amounts in thousandths of a CPU and in bytes."""

    slots: Sequence[Slot]
    cpu_free: int
    ram_free: int

    @property
    def free_milli(self) -> int:
        return sum(slot.free_milli for slot in self.slots)

    @property
    def empties(self) -> int:
        return sum(not slot.lodgers for slot in self.slots)


@dataclass(frozen=True)
class PlainWorth:
    """The measure for a mix on some kinds of GPUs, ``levels`` being those of the prices, of sixteen each.

    ``present`` are the kinds of which there are GPUs now: no other can get scarce.
    """

    mix: Mix
    kinds: Kinds
    levels: Sequence[int]
    present: Kinds

    def forgone(self, before: Standing, after: Standing) -> int:
        """What others lose on a node, in thousandths of a GPU, times three; nodes have GPUs of one kind."""
        if not before.slots:
            return 0
        changed = [(old, new) for old, new in zip(before.slots, after.slots, strict=True) if old != new]
        lost = sum(self._of_gpu(old, new) for old, new in changed)
        lost += self._fed(before) - self._fed(after)
        model = before.slots[0].gpu.model
        taken = before.free_milli - after.free_milli
        lost += self._kind_price(model) * taken // 1000
        for usual, price in self._big:
            if model in self._models_of(usual):
                lost += price * (_places(usual.request, before) - _places(usual.request, after))
        return lost

    def _of_gpu(self, old: Slot, new: Slot) -> int:
        """The free part by what fits, and best fit: a nearly full GPU loses less."""
        best_fit = (old.free_milli**2 - new.free_milli**2) // 4000
        return 3 * (self._worth(old) - self._worth(new)) + best_fit

    def _worth(self, slot: Slot) -> int:
        if slot.mode is None:
            return 1000
        if slot.mode is Mode.EXCLUSIVE:
            return 0
        if slot.mode is Mode.MIG:
            return self._of_slices(slot)
        if slot.mode is Mode.MPS and len(slot.lodgers) >= most_clients(slot.gpu.model):
            return 0
        milli, total = slot.free_milli, slot.gpu.memory_bytes
        if total is not None:
            milli = min(milli, slot.free_memory * 1000 // total)
        return int(self._shares[milli])

    @cached_property
    def _shares(self) -> Sequence[int]:
        """The duals of packing shares and whole GPUs, each in the least of its sizes; slices are apart."""
        demand: Counter[int] = Counter()
        for usual in self.mix:
            sizes = []
            for needs in self._needs(usual):
                # Who accepts a share as well as the whole GPU counts with the share.
                shares = [need for mode, need in needs.items() if mode in SHARED]
                whole = [need for mode, need in needs.items() if mode is Mode.EXCLUSIVE and len(needs) == 1]
                sizes += [need.compute_milli for need in shares + whole]
            if sizes:
                demand[min(sizes)] += usual.weight * usual.request.gpus
        return residual_worth(demand)

    def _of_slices(self, slot: Slot) -> int:
        """The best fill with the slices that usual requests take, else with any that has no media engines."""
        model = slot.gpu.model
        usual = {need.mig_profile for need in self._slices_of(model)}
        plain = {i for i, cut in enumerate(profiles_of(model)) if not cut.media}
        chosen = frozenset(usual or plain)
        memory = frozenset(
            at for cut, start in slot.slices() for at in range(start, start + cut.memory_slices)
        )
        compute = sum(cut.compute_slices for cut, _start in slot.slices())
        media = sum(cut.media for cut, _start in slot.slices())
        whole = best_fill(model, chosen, frozenset(), 0, 0)
        return best_fill(model, chosen, memory, compute, media) * 1000 // max(whole, 1)

    def _slices_of(self, model: str) -> Iterable[Need]:
        for usual in self.mix:
            for kind, needs in zip(self.kinds, self._needs(usual), strict=True):
                if kind[0] == model and Mode.MIG in needs:
                    yield needs[Mode.MIG]

    def _fed(self, node: Standing) -> int:
        """Free compute that CPU and RAM can feed at several ratios about the usual one."""
        with_gpus = [usual for usual in self.mix if usual.request.gpus]
        compute = sum(u.weight * u.request.gpus * (u.request.compute_milli or 1000) for u in with_gpus)
        cpu = sum(u.weight * u.request.cpu_milli for u in with_gpus)
        mib = sum(u.weight * (u.request.ram_bytes >> 20) for u in with_gpus)
        feeds = [(node.cpu_free, ratio * cpu // compute, weight) for ratio, weight in CPU_RATIOS]
        feeds.append((node.ram_free >> 20, RAM_RATIO[0] * mib // compute, RAM_RATIO[1]))
        free = node.free_milli
        return sum(w * (min(free, there * 1000 // per) if per else free) for there, per, w in feeds) // 8

    # -- what is scarce ------------------------------------------------------------------------------------

    @property
    def _big(self) -> list[tuple[UsualRequest, int]]:
        """Usual requests of several GPUs, and the price of a place for one: of so many GPUs."""
        big = [usual for usual in self.mix if usual.request.gpus > 1]
        return [(u, _price(level) * u.request.gpus) for u, level in zip(big, self.levels, strict=False)]

    def _kind_price(self, model: str) -> int:
        """The highest of the prices of the sets of kinds that some requests must have."""
        sets = {self._models_of(usual) for usual in self.mix if usual.request.gpus}
        everything = frozenset(kind[0] for kind in self.present)
        confined = sorted(sorted(one) for one in sets if one and one != everything)
        levels = self.levels[len(self._big) :]
        return max((_price(v) for one, v in zip(confined, levels, strict=True) if model in one), default=0)

    def _models_of(self, usual: UsualRequest) -> frozenset[str]:
        found = zip(self.kinds, self._needs(usual), strict=True)
        return frozenset(kind[0] for kind, needs in found if needs and kind in self.present)

    def _needs(self, usual: UsualRequest) -> list[Mapping[Mode, Need]]:
        return [needs_of(usual.request, usual.profile, *kind) for kind in self.kinds]


def _price(level: int) -> int:
    return 1000 * level**2 // 16**2


def _places(request: Request, node: Standing) -> int:
    """How often a request of several whole GPUs fits on a node."""
    limits = [node.empties // request.gpus]
    if request.cpu_milli:
        limits.append(node.cpu_free // request.cpu_milli)
    if request.ram_bytes >> 20:
        limits.append((node.ram_free >> 20) // (request.ram_bytes >> 20))
    return min(limits)


@cache
def best_fill(model: str, chosen: frozenset[int], memory: frozenset[int], compute: int, media: int) -> int:
    """The most that slices of these profiles are worth in what is left; each by the scarcer of its parts."""
    geometry = geometry_of(model)
    assert geometry is not None
    best = 0
    for number in chosen:
        cut = profiles_of(model)[number]
        parts = cut.compute_slices * geometry.memory_slices, cut.memory_slices * geometry.compute_slices
        worth = 1000 * max(parts) // (geometry.compute_slices * geometry.memory_slices)
        if compute + cut.compute_slices > compute_slices(model) or media + cut.media > 1:
            continue
        for start in cut.starts:
            mine = frozenset(range(start, start + cut.memory_slices))
            if not mine & memory:
                rest = (memory | mine, compute + cut.compute_slices, media + cut.media)
                best = max(best, worth + best_fill(model, chosen, *rest))
    return best
