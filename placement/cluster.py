"""The state of the cluster as arrays: one row a node, one column a GPU slot.

Every figure of a GPU is a function of its residents, recomputed whenever they change: releasing restores the
start bit for bit in any order.  Nodes are kept in the order of their ids, so that ties never depend on who
joined first.  What-if is a checkpoint and a rollback, never a copy.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from placement import kernels as k
from placement.interference import Resident
from placement.kernels import Ints
from placement.model import WHOLE_GPU_MILLI, Assignment, Gpu, Mode, Node, NotFound, Profile, Share, StateError
from placement.neighbourhood import Neighbour, NeighbourhoodTable, neighbourhood_of
from placement.partition import MigGeometry, geometry_of

UNLIMITED = 1 << 60
"""Stands for an amount that nobody stated: it never constrains and stays unlimited when used."""

MODE_CODE = {Mode.EXCLUSIVE: k.EXCLUSIVE, Mode.MIG: k.MIG, Mode.MPS: k.MPS, Mode.TIMESLICE: k.TIMESLICE}
SEVERAL = -2
"""Value of a GPU's TENANT column when several tenants share it; one tenant is its number, nobody -1."""

LOG_LIMIT = 1 << 16


@dataclass(frozen=True, slots=True)
class Tenancy:
    """One worker's share of a GPU."""

    job_id: str
    worker: int
    share: Share


@dataclass(frozen=True, slots=True)
class Holder:
    """What the cluster must know of a job that holds shares."""

    job_id: str
    tenant: str
    profile: Profile | None = None
    max_slowdown: float | None = None
    isolating: bool = False
    cpu_milli: int = 0
    ram_bytes: int = 0


@dataclass(slots=True)
class _Lodging:
    """A tenancy with its holder, ordered by (job, worker)."""

    key: tuple[str, int]
    holder: Holder
    share: Share


class Cluster:
    """All nodes, what is free on them, and who holds what.

    Attributes:
        gpus: int64 [nodes, slots, kernels.GPU_COLUMNS]; nodes: int64 [nodes, kernels.NODE_COLUMNS].
            Rows are in the order of node ids, memory in bytes, compute in thousandths of a GPU.
        touched: rows whose figures changed, in order, since ``generation`` last grew.
    """

    def __init__(self) -> None:
        self.members: list[Node] = []
        self.kinds: list[tuple[str, int | None]] = []
        self.geometries: list[MigGeometry | None] = []
        self.neighbourhoods = NeighbourhoodTable()
        self.isolated_gpus = 0
        self.touched: list[int] = []
        self.generation = 0
        self._kind_numbers: dict[tuple[str, int | None], int] = {}
        self._tenant_numbers: dict[str, int] = {}
        self._undo: list[tuple[bool, Holder, Assignment]] | None = None
        self._down: set[str] = set()
        self._holdings: dict[tuple[str, int], tuple[Holder, Assignment]] = {}
        self._lay_out([])

    # -- nodes ---------------------------------------------------------------------------------------------

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        """Replace the nodes and lodge everybody again; holdings on vanished GPUs wait for their return."""
        self._lay_out(sorted(nodes, key=lambda node: node.node_id))
        for holder, assignment in self._holdings.values():
            self._apply(holder, assignment, taken=True)

    def renew(self, holders: Iterable[Holder]) -> None:
        """Replace what is known of jobs that hold shares."""
        by_job = {holder.job_id: holder for holder in holders}
        self._holdings = {
            key: (by_job.get(key[0], holder), assignment)
            for key, (holder, assignment) in self._holdings.items()
        }
        self.set_nodes(self.members)

    def _lay_out(self, members: list[Node]) -> None:
        self.members = members
        self._row = {node.node_id: i for i, node in enumerate(members)}
        self._slot = {gpu.uuid: (i, j) for i, node in enumerate(members) for j, gpu in enumerate(node.gpus)}
        width = max((len(node.gpus) for node in members), default=0)
        self._lodgings: list[list[list[_Lodging]]] = [[[] for _ in node.gpus] for node in members]
        self.gpus: Ints = np.zeros((len(members), width, k.GPU_COLUMNS), np.int64)
        self.gpus[:, :, k.MODE] = k.ABSENT
        self.nodes: Ints = np.zeros((len(members), k.NODE_COLUMNS), np.int64)
        self.isolated_gpus = 0
        for i, node in enumerate(members):
            for j, gpu in enumerate(node.gpus):
                self.gpus[i, j] = self._bare_gpu(gpu)
            self.nodes[i] = (
                _limit(node.cpu_milli),
                _limit(node.ram_bytes),
                WHOLE_GPU_MILLI * len(node.gpus),
                len(node.gpus),
                node.node_id not in self._down,
            )
        self._bare, self._full = self.gpus.copy(), self.gpus.copy()
        self._full[:, :, [k.MODE, k.CLIENTS, k.FREE_MILLI, k.FREE_MEMORY]] = k.EXCLUSIVE, 1, 0, 0
        self._forget_log()

    def _bare_gpu(self, gpu: Gpu) -> tuple[int, ...]:
        """The columns of a GPU without residents."""
        kind = self._kind_number(gpu)
        alone = self.neighbourhoods.number(neighbourhood_of(gpu.model, kind, []))
        return k.EMPTY, 0, 0, kind, k.NOBODY, 0, alone, WHOLE_GPU_MILLI, _limit(gpu.memory_bytes)

    def _forget_log(self) -> None:
        """Make every reader of the log look at all rows again."""
        self.generation += 1
        self.touched = []

    def _touch(self, row: int) -> None:
        self.touched.append(row)
        if len(self.touched) > LOG_LIMIT:
            self._forget_log()

    def set_up(self, node_id: str, *, up: bool) -> None:
        """Say whether anything new may go to a node."""
        (self._down.discard if up else self._down.add)(node_id)
        row = self._row.get(node_id)
        if row is not None:
            self.nodes[row, k.UP] = up
            self._touch(row)

    def is_up(self, node_id: str) -> bool:
        """Whether anything new may go to a node; raises NotFound for an unknown one."""
        return self.nodes.item(self.row_of(node_id), k.UP) == 1

    def row_of(self, node_id: str) -> int:
        """The array row of a node.

        Raises:
            NotFound: no such node.
        """
        row = self._row.get(node_id)
        if row is None:
            raise NotFound(f"no node {node_id!r} has joined")
        return row

    def has_node(self, node_id: str) -> bool:
        """Whether a node is known."""
        return node_id in self._row

    def has_gpu(self, uuid: str) -> bool:
        """Whether a GPU is known."""
        return uuid in self._slot

    def can_start(self, assignment: Assignment) -> bool:
        """Whether the node of an assignment is available and has the GPUs."""
        return self.has(assignment) and self.is_up(assignment.node_id)

    def has(self, assignment: Assignment) -> bool:
        """Whether the node of an assignment and all its GPUs are known."""
        shares = assignment.shares
        return assignment.node_id in self._row and all(share.gpu_uuid in self._slot for share in shares)

    def gpu(self, uuid: str) -> Gpu:
        """The GPU with that UUID.

        Raises:
            NotFound: no such GPU.
        """
        place = self._slot.get(uuid)
        if place is None:
            raise NotFound(f"no GPU {uuid!r} is known")
        return self.members[place[0]].gpus[place[1]]

    def _kind_number(self, gpu: Gpu) -> int:
        """The number of a GPU's model and memory in the MODEL column."""
        kind = (gpu.model, gpu.memory_bytes)
        number = self._kind_numbers.get(kind)
        if number is None:
            number = self._kind_numbers[kind] = len(self.kinds)
            self.kinds.append(kind)
            self.geometries.append(geometry_of(gpu.model))
        return number

    def tenant_number(self, tenant: str) -> int:
        """The number of a tenant in the TENANT column."""
        return self._tenant_numbers.setdefault(tenant, len(self._tenant_numbers))

    # -- shares --------------------------------------------------------------------------------------------

    def allocate(self, holder: Holder, assignment: Assignment) -> None:
        """Give one worker its shares; the caller has checked that they fit."""
        self._holdings[holder.job_id, assignment.worker] = (holder, assignment)
        self._apply(holder, assignment, taken=True)

    def release(self, job_id: str, worker: int) -> Assignment | None:
        """Take one worker's shares back; None if it holds none."""
        held = self._holdings.pop((job_id, worker), None)
        if held is None:
            return None
        self._apply(held[0], held[1], taken=False)
        return held[1]

    def holder(self, job_id: str, worker: int) -> Holder | None:
        """What is known of a job whose worker holds shares, None if it holds none."""
        held = self._holdings.get((job_id, worker))
        return None if held is None else held[0]

    def checkpoint(self) -> None:
        """Begin a what-if; one at a time."""
        if self._undo is not None:
            raise StateError("a what-if is already open")
        self._undo = []

    def rollback(self) -> None:
        """End the what-if and put everything back as it was."""
        undo, self._undo = self._undo or [], None
        for taken, holder, assignment in reversed(undo):
            if taken:
                self.release(holder.job_id, assignment.worker)
            else:
                self.allocate(holder, assignment)

    def commit(self) -> None:
        """End the what-if and keep what it did."""
        self._undo = None

    def _apply(self, holder: Holder, assignment: Assignment, *, taken: bool) -> None:
        if self._undo is not None:
            self._undo.append((taken, holder, assignment))
        row = self._row.get(assignment.node_id)
        if row is None:
            return
        node = self.members[row]
        sign = -1 if taken else 1
        if holder.cpu_milli and node.cpu_milli is not None:
            self.nodes[row, k.CPU_FREE] += sign * holder.cpu_milli
        if holder.ram_bytes and node.ram_bytes is not None:
            self.nodes[row, k.RAM_FREE] += sign * holder.ram_bytes
        key = (holder.job_id, assignment.worker)
        for share in assignment.shares:
            place = self._slot.get(share.gpu_uuid)
            if place is not None:
                self._lodge(place, _Lodging(key, holder, share), taken=taken)
        self._touch(row)

    def _lodge(self, place: tuple[int, int], lodging: _Lodging, *, taken: bool) -> None:
        """Add a resident to a GPU, or take it away."""
        row, slot = place
        lodgings = self._lodgings[row][slot]
        if not taken:
            del lodgings[next(i for i, other in enumerate(lodgings) if other.key == lodging.key)]
        elif lodgings:
            bisect.insort(lodgings, lodging, key=_lodging_key)
        else:
            lodgings.append(lodging)
        self._refresh(row, slot, lodgings)

    def _refresh(self, row: int, slot: int, lodgings: list[_Lodging]) -> None:
        """Recompute every figure of one GPU from its residents."""
        gpu, node = self.gpus[row, slot], self.nodes[row]
        free, was_empty, isolated = gpu.item(k.FREE_MILLI), gpu.item(k.MODE) == k.EMPTY, gpu.item(k.ISOLATED)
        if not lodgings:
            gpu[:] = self._bare[row, slot]
        elif lodgings[0].share.mode is Mode.EXCLUSIVE:
            gpu[:] = self._full[row, slot]
        else:
            gpu[:] = self._shared(gpu.item(k.MODEL), lodgings)
        node[k.FREE_SUM] += gpu.item(k.FREE_MILLI) - free
        if was_empty or not lodgings:
            node[k.EMPTIES] += (not lodgings) - was_empty
        if isolated != gpu.item(k.ISOLATED):
            self.isolated_gpus += 1 - 2 * isolated

    def _shared(self, kind: int, lodgings: list[_Lodging]) -> tuple[int, ...]:
        """The columns of a GPU that is shared by these residents."""
        model, memory_bytes = self.kinds[kind]
        geometry = self.geometries[kind]
        milli, memory, mig, tenant, isolated = WHOLE_GPU_MILLI, _limit(memory_bytes), 0, k.NOBODY, 0
        for lodging in lodgings:
            share, holder = lodging.share, lodging.holder
            milli -= share.compute_milli
            if share.memory_bytes is not None and memory < UNLIMITED:
                memory -= share.memory_bytes
            number = self.tenant_number(holder.tenant)
            tenant = number if tenant in (k.NOBODY, number) else SEVERAL
            isolated |= holder.isolating
            if share.mode is Mode.MIG and geometry is not None:
                mig = _with_slice(geometry, mig, share)
        mode = MODE_CODE[lodgings[0].share.mode]
        if mode == k.MIG and geometry is not None:
            milli = int(geometry.free_milli[mig])
        place = self.neighbourhoods.number(neighbourhood_of(model, kind, _neighbours(lodgings)))
        return mode, mig, len(lodgings), kind, tenant, int(isolated), place, milli, memory

    def residents(self, gpu_uuid: str) -> tuple[Tenancy, ...]:
        """Who holds shares of a GPU, in the order of job and worker.

        Raises:
            NotFound: no such GPU.
        """
        place = self._slot.get(gpu_uuid)
        if place is None:
            raise NotFound(f"no GPU {gpu_uuid!r} is known")
        lodgings = self._lodgings[place[0]][place[1]]
        return tuple(Tenancy(lodging.key[0], lodging.key[1], lodging.share) for lodging in lodgings)

    def resident_jobs(self, gpu_uuid: str) -> list[tuple[Holder, Share]]:
        """Holders and shares of a GPU, in the order of job and worker; nobody on an unknown one."""
        place = self._slot.get(gpu_uuid)
        lodgings = [] if place is None else self._lodgings[place[0]][place[1]]
        return [(lodging.holder, lodging.share) for lodging in lodgings]


def _lodging_key(lodging: _Lodging) -> tuple[str, int]:
    return lodging.key


def _limit(amount: int | None) -> int:
    return UNLIMITED if amount is None else amount


def _neighbours(lodgings: Sequence[_Lodging]) -> list[Neighbour]:
    return [
        Neighbour(
            Resident(lodging.holder.profile, lodging.share.mode, lodging.share.compute_milli),
            lodging.holder.max_slowdown,
        )
        for lodging in lodgings
    ]


def _with_slice(geometry: MigGeometry, state: int, share: Share) -> int:
    profile = geometry.profile_index(share.mig_profile or "")
    after = geometry.add(state, profile, -1 if share.mig_start is None else share.mig_start)
    if after is None:
        raise StateError(f"{share} overlaps another slice")
    return after
