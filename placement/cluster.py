"""The state of the cluster as arrays: one row a node, one column a GPU slot.

Every figure of a GPU is a function of its residents, recomputed whenever they change: releasing restores the
start bit for bit in any order.  Nodes are kept in the order of their ids, so that ties never depend on who
joined first.  What-if is a checkpoint and a rollback, never a copy.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from operator import attrgetter

import numpy as np

from placement import columns as k
from placement.change_log import ChangeLog
from placement.columns import Ints
from placement.dedicated import Dedicated, dedicated_to
from placement.figures import Figures, limit
from placement.interference import Coupling, InterferenceModel, Resident, coupling_of
from placement.layout import arranged
from placement.lodgings import Holder, Lodging, Tenancy
from placement.mix import Mix
from placement.model import WHOLE_GPU_MILLI, Assignment, Gpu, Mode, Node, NotFound, Share, StateError
from placement.model.hardware import each_gpu_once
from placement.summaries import ONE_EMPTY, one_kind, summarise

_key = attrgetter("key")
_EXCLUSIVE = Mode.EXCLUSIVE  # an attribute of an enum is slower to read
_FELT = Mode.MPS, Mode.TIMESLICE


class Cluster:
    """All nodes, what is free on them, and who holds what.

    Attributes:
        gpus: int64 [nodes, slots, columns.GPU_COLUMNS]; nodes: int64 [nodes, columns.NODE_COLUMNS];
            briefs: int64 [nodes], see :mod:`placement.summaries`.
            Rows are in the order of node ids, memory in bytes, compute in thousandths of a GPU.  The column
            USABLE is kept if ``usable``.
        kinds: model and memory of each kind of GPU, by its number in the MODEL column; geometries: the MIG
            geometry of each; neighbourhoods: the sets of residents by number.
        members: the node of each row; announced: the nodes as they were given, in the same order: one that
            names a GPU which is taken to be elsewhere has more GPUs there than among the members.
        log: which rows have changed; generation: grows when rows or kinds of GPUs are others than before.
    """

    def __init__(
        self, mix: Mix = (), belief: InterferenceModel | None = None, *, usable: bool = True
    ) -> None:
        self.figures = Figures(mix, usable=usable)
        self.kinds, self.geometries = self.figures.kinds, self.figures.geometries
        self.neighbourhoods = self.figures.neighbourhoods
        self.members: list[Node] = []
        self.announced: list[Node] = []
        self.isolated_gpus = 0
        self.log = ChangeLog()
        self.generation = 0
        self.gpus: Ints = np.zeros((0, 0, k.GPU_COLUMNS), np.int64)
        self.nodes: Ints = np.zeros((0, k.NODE_COLUMNS), np.int64)
        self.briefs: Ints = np.zeros(0, np.int64)
        self._belief = belief
        self._tenant_numbers: dict[str, int] = {}
        self._undo: list[tuple[bool, Holder, Assignment]] | None = None
        self._down: set[str] = set()
        self._holdings: dict[tuple[str, int], tuple[Holder, Assignment]] = {}
        self._row: dict[str, int] = {}
        self._slot: dict[str, tuple[str, int]] = {}
        self._lodgings: dict[str, list[list[Lodging]]] = {}
        self._shapes: dict[str, dict[int, int]] = {}
        self._dedicated = Dedicated()

    @property
    def state(self) -> tuple[Ints, Ints, Ints]:
        """The arrays of GPUs, nodes and briefs."""
        return self.gpus, self.nodes, self.briefs

    @property
    def mix_tables(self) -> Ints:
        """The compiled mix of usual requests."""
        return self.figures.mix_tables

    # -- nodes ---------------------------------------------------------------------------------------------

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        """Replace the nodes; rows of those that stay as they are are kept with all who lodge there.

        Holdings on vanished GPUs wait for their return.  A GPU that several nodes name is on the first of
        them by id, whoever named it first: what a row holds depends on the nodes alone.
        """
        known = {node.node_id: node for node in self.members}
        self.announced = sorted(nodes, key=lambda node: node.node_id)
        members = each_gpu_once(self.announced)
        new = {node.node_id for node in members if known.get(node.node_id) != node}
        if self.figures.learn_kinds([gpu for node in members if node.node_id in new for gpu in node.gpus]):
            new = {node.node_id for node in members}  # what a GPU could be used for is numbered anew
        self._lay_out(members, new)

    def use_mix(self, mix: Mix) -> None:
        """Take other requests for usual."""
        self.figures.use_mix(mix)
        self._lay_out(self.members, set(self._row))

    def renew(self, holders: Iterable[Holder]) -> None:
        """Replace what is known of jobs that hold shares."""
        by_job = {holder.job_id: holder for holder in holders}
        held = [key for key in self._holdings if key[0] in by_job]
        for key in held:
            self._holdings[key] = (by_job[key[0]], self._holdings[key][1])
        self._lay_out(self.members, {self._holdings[key][1].node_id for key in held} & self._row.keys())

    def _lay_out(self, members: list[Node], new: set[str]) -> None:
        """Arrange the rows; nodes in ``new`` begin empty and those who hold shares there lodge again."""
        self._dedicated.renumber()
        width = max((len(node.gpus) for node in members), default=0)
        gone = (self._row.keys() | new) - {node.node_id for node in members if node.node_id not in new}
        for node_id in gone & self._row.keys():
            self._drop(node_id)
        kept = [self._row.get(node.node_id, -1) for node in members]
        self.gpus, self.nodes, self.briefs = arranged(kept, width, self.state)
        self.members = members
        self._row = {node.node_id: i for i, node in enumerate(members)}
        for i, node in enumerate(members):
            if kept[i] < 0:
                self._begin(i, node)
        for holder, assignment in self._holdings.values():
            if assignment.node_id in new:
                self._apply(holder, assignment, taken=True)
        self.generation += 1
        self.log.forget()

    def _drop(self, node_id: str) -> None:
        """Forget a node's row; those who hold shares there keep them in the books."""
        for slot, lodgings in enumerate(self._lodgings[node_id]):
            gpu = self.gpus[self._row[node_id], slot].tolist()
            self._dedicated.count((node_id, self._row[node_id]), dedicated_to(gpu), -1)
            self.neighbourhoods.moved(gpu[k.NEIGHBOURHOOD], None)
            del lodgings[:]
        self.isolated_gpus -= int(self.gpus[self._row[node_id], :, k.ISOLATED].sum())
        for gpu in self.members[self._row[node_id]].gpus:
            del self._slot[gpu.uuid]
        del self._lodgings[node_id], self._shapes[node_id], self._row[node_id]

    def _begin(self, row: int, node: Node) -> None:
        """Fill the row of a node without residents."""
        self._lodgings[node.node_id] = [[] for _ in node.gpus]
        self._shapes[node.node_id] = {}
        for j, gpu in enumerate(node.gpus):
            self._slot[gpu.uuid] = node.node_id, j
            self.gpus[row, j] = self.figures.bare(gpu)
            self.neighbourhoods.moved(None, self.gpus.item(row, j, k.NEIGHBOURHOOD))
        count = len(node.gpus)
        free = limit(node.cpu_milli), limit(node.ram_bytes), WHOLE_GPU_MILLI * count
        self.nodes[row, : k.MODELS] = (*free, count, node.node_id not in self._down, count, 0)
        self.briefs[row] = summarise(self.gpus[row], self.nodes[row], self.figures.placeable)

    def value_anew(self) -> None:
        """Prices have changed: every row is worth another look."""
        self.log.forget_all()

    def set_up(self, node_id: str, *, up: bool) -> None:
        """Say whether anything new may go to a node."""
        (self._down.discard if up else self._down.add)(node_id)
        row = self._row.get(node_id)
        if row is not None:
            self.nodes[row, k.UP] = up
            self.log.add(row)

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

    def is_on(self, uuid: str, node_id: str) -> bool:
        """Whether a GPU is known and on that node."""
        return self._slot.get(uuid, ("",))[0] == node_id

    def can_start(self, assignment: Assignment) -> bool:
        """Whether the node of an assignment is available and has the GPUs."""
        return self.has(assignment) and self.is_up(assignment.node_id)

    def has(self, assignment: Assignment) -> bool:
        """Whether the node of an assignment is known and has all its GPUs."""
        node_id, shares = assignment.node_id, assignment.shares
        return node_id in self._row and all(self.is_on(share.gpu_uuid, node_id) for share in shares)

    def gpu(self, uuid: str) -> Gpu:
        """The GPU with that UUID.

        Raises:
            NotFound: no such GPU.
        """
        place = self._slot.get(uuid)
        if place is None:
            raise NotFound(f"no GPU {uuid!r} is known")
        return self.members[self._row[place[0]]].gpus[place[1]]

    def tenant_number(self, tenant: str) -> int:
        """The number of a tenant in the TENANT column."""
        return self._tenant_numbers.setdefault(tenant, len(self._tenant_numbers))

    def own_rows(self, tenant: int, *, alone: bool) -> Ints:
        """Nodes with a shared GPU that a tenant has for itself: of its own will, or ``alone`` in any way."""
        return self._dedicated.rows(tenant, self._row, by_will=not alone)

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
        sign = -1 if taken else 1
        if holder.cpu_milli or holder.ram_bytes:
            self._use_beside_gpus(row, holder, sign)
        if assignment.shares:
            self._use_gpus(row, holder, assignment, taken=taken)
            self._count_shape(row, assignment, -sign)
        self.log.add(row)

    def _use_beside_gpus(self, row: int, holder: Holder, sign: int) -> None:
        node = self.members[row]
        if holder.cpu_milli and node.cpu_milli is not None:
            self.nodes[row, k.CPU_FREE] += sign * holder.cpu_milli
        if holder.ram_bytes and node.ram_bytes is not None:
            self.nodes[row, k.RAM_FREE] += sign * holder.ram_bytes

    def _use_gpus(self, row: int, holder: Holder, assignment: Assignment, *, taken: bool) -> None:
        """Have a worker move in or out, and renew the summary of the node."""
        key, tenant = (holder.job_id, assignment.worker), self.tenant_number(holder.tenant)
        lodgings_of, slots, gpus = self._lodgings[assignment.node_id], self._slot, self.gpus
        alike = one_kind(self.nodes.item(row, k.MODELS))
        columns, whole = None, 0
        for share in assignment.shares:
            place = slots.get(share.gpu_uuid)
            if place is None or place[0] != assignment.node_id:
                continue
            slot = place[1]
            lodgings = lodgings_of[slot]
            if share.mode is _EXCLUSIVE and len(lodgings) == (0 if taken else 1):
                # From nobody's to one's own or back: what changes is known beforehand.
                whole += 1
                if taken:
                    lodgings.append(Lodging(key, holder, share, tenant, None))
                else:
                    lodgings.clear()
                if columns is None or not alike:
                    columns = self.figures.whole(gpus.item(row, slot, k.MODEL))[taken]
                gpus[row, slot] = columns
            elif taken:
                self._move_in(row, place, holder, (tenant, assignment.worker, share))
            else:
                self._move_out(row, place, key)
        fewest = self._count_whole(row, -whole if taken else whole) if whole else 0
        # No GPU offers more than an empty one of its kind does.
        if not (alike and fewest > 0 and whole == len(assignment.shares)):
            self.briefs[row] = summarise(gpus[row], self.nodes[row], self.figures.placeable)

    def _count_whole(self, row: int, change: int) -> int:
        """Whole GPUs have become free or taken; gives how few were empty, before or after."""
        empties = self.nodes.item(row, k.EMPTIES)
        self.nodes[row, k.FREE_SUM] += WHOLE_GPU_MILLI * change
        self.nodes[row, k.EMPTIES] = empties + change
        self.briefs[row] += ONE_EMPTY * change
        return min(empties, empties + change)

    def _move_in(
        self, row: int, place: tuple[str, int], holder: Holder, what: tuple[int, int, Share]
    ) -> None:
        tenant, worker, share = what
        coupling: Coupling | None = None
        if self._belief is not None and share.gpu_mode in _FELT:
            model = self.kinds[self.gpus.item(row, place[1], k.MODEL)][0]
            coupling = coupling_of(
                self._belief, model, Resident(holder.profile, share.mode, share.compute_milli)
            )
        lodging = Lodging((holder.job_id, worker), holder, share, tenant, coupling)
        lodgings = self._lodgings[place[0]][place[1]]
        if lodgings:
            bisect.insort(lodgings, lodging, key=_key)
        else:
            lodgings.append(lodging)
        self._refresh(row, place, lodgings)

    def _move_out(self, row: int, place: tuple[str, int], key: tuple[str, int]) -> None:
        lodgings = self._lodgings[place[0]][place[1]]
        del lodgings[next(i for i, lodging in enumerate(lodgings) if lodging.key == key)]
        self._refresh(row, place, lodgings)

    def _refresh(self, row: int, place: tuple[str, int], lodgings: list[Lodging]) -> None:
        """Recompute every figure of one GPU from its residents."""
        slot, node = place[1], self.nodes[row]
        before = self.gpus[row, slot].tolist()
        if not lodgings:
            after = self.figures.bare(self.members[row].gpus[slot]).tolist()
        elif lodgings[0].share.mode is _EXCLUSIVE:
            after = self.figures.whole(before[k.MODEL])[1].tolist()
        else:
            after = self.figures.shared(before[k.MODEL], lodgings)
        self.gpus[row, slot] = after
        owned, owns = dedicated_to(before), dedicated_to(after)
        if owns != owned:
            self._dedicated.count((place[0], row), owned, -1)
            self._dedicated.count((place[0], row), owns, 1)
        if after[k.NEIGHBOURHOOD] != before[k.NEIGHBOURHOOD]:
            self.neighbourhoods.moved(before[k.NEIGHBOURHOOD], after[k.NEIGHBOURHOOD])
        node[k.FREE_SUM] += after[k.FREE_MILLI] - before[k.FREE_MILLI]
        was_empty = before[k.MODE] == k.EMPTY
        if was_empty or not lodgings:
            node[k.EMPTIES] += (not lodgings) - was_empty
        self.isolated_gpus += after[k.ISOLATED] - before[k.ISOLATED]

    def _count_shape(self, row: int, assignment: Assignment, sign: int) -> None:
        """Keep the mask of the kinds of workers on a node."""
        shares = assignment.shares
        if not shares:
            return
        shape = 0 if shares[0].mode is not _EXCLUSIVE else min(len(shares), k.MOST_SHAPES)
        counts = self._shapes[assignment.node_id]
        counts[shape] = counts.get(shape, 0) + sign
        if counts[shape] == (1 if sign > 0 else 0):
            self.nodes[row, k.SHAPES] ^= 1 << shape

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
