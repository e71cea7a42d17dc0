"""Private clusters for tenants inside a shared one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from placement.model import InvalidSpec, Mode, Node
from placement.model.hardware import node_from_short_form
from placement.planning.cell_layout import BuddyCells, CellLayout
from placement.policies.base import OrderPolicy, Placement
from placement.policies.hived_planner import HivedPlanner, Quotas, pools_of

_FORM = "TENANT=COUNTxGPUSxMODEL, such as vision=2x8xA100-SXM4-80GB"


class Hived(Placement):
    """Each tenant has cells, and finds room as if it had them as a private cluster (HiveD, OSDI'20).

    A job gets whole GPUs of a free cell of its tenant.  If there is none, or the tenant has no cells, it
    runs on idle GPUs until their owner comes: it is then put back in the queue.  A job that may not be put
    back runs in cells alone, and is refused if its tenant's cannot hold it, or the nodes have no room for all
    cells.  The guarantee is about GPUs: CPU and RAM of a node are not divided.
    """

    name = "hived"
    source = "HiveD, OSDI'20"
    options = f"{_FORM}; several with colons between them"
    modes = frozenset({Mode.EXCLUSIVE})
    idles = "a job that may not be preempted waits for a cell of its tenant although other GPUs are idle"

    def __init__(self, quotas: Quotas | None = None) -> None:
        self._quotas: Quotas = quotas or {}

    def with_options(self, text: str) -> Hived:
        """Cells of tenants by GPU model.

        Raises:
            InvalidSpec: not of the form above, or a cell's GPUs are no power of two.
            UnknownName: nobody knows the GPU model.
        """
        found: dict[str, dict[str, dict[int, int]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(int))
        )
        for entry in text.split(":"):
            tenant, equals, cells = entry.partition("=")
            count, times, node = cells.partition("x")
            if not tenant or not equals or not times or not (count.isascii() and count.isdigit()):
                raise InvalidSpec(f"policy hived: {entry!r}: write {_FORM}")
            if int(count) < 1:
                raise InvalidSpec(f"policy hived: {entry!r}: write 1 or more cells, not {count}")
            gpus = node_from_short_form(node, "").gpus
            if len(gpus) & (len(gpus) - 1):
                raise InvalidSpec(
                    f"policy hived: {entry!r}: a cell has 1, 2, 4, 8, ... GPUs, not {len(gpus)}"
                )
            found[gpus[0].model][tenant][len(gpus)] += int(count)
        return Hived({model: {t: dict(cells) for t, cells in by.items()} for model, by in found.items()})

    def check(self, nodes: Sequence[Node]) -> None:
        """All cells must have room at once."""
        pools = pools_of(nodes)
        for model, quotas in self._quotas.items():
            if model not in pools:
                raise InvalidSpec(f"policy hived: tenants have cells of {model}, and this cluster has none")
            promised: Counter[int] = Counter()
            for cells in quotas.values():
                promised.update(cells)
            missing = BuddyCells(CellLayout(pools[model])).short_of(promised)
            if missing:
                size, count = max(missing.items())
                cells_said = "1 cell" if count == 1 else f"{count} cells"
                raise InvalidSpec(
                    f"policy hived: its tenants are promised {cells_said} of {size}x{model} more than this "
                    "cluster has room for"
                )

    def tenants(self) -> frozenset[str]:
        """Who has cells."""
        return frozenset(tenant for by_tenant in self._quotas.values() for tenant in by_tenant)

    def misfit(self, order: OrderPolicy) -> str:
        """Orders that let one tenant's jobs hold up or push out another's break the guarantee."""
        if order.strict:
            return "one tenant's first job would hold up all others, who were promised clusters of their own"
        if order.preemptive:
            return "it would push jobs out of the cells that their tenants were promised"
        return ""

    def planner(self) -> HivedPlanner:
        """Cells decide, not scores."""
        return HivedPlanner(self._quotas)
