"""The arrays of the cluster after any history are those of a cluster that begins with the outcome."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from placement import change_log
from placement import columns as k
from placement.cluster import Cluster
from placement.interference import AdditiveInterference
from placement.lodgings import Holder
from placement.model import Assignment, Gpu, Isolation, Job, Mode, Node, Request, Share
from placement.policies import PLACEMENTS
from placement.summaries import summarise
from tests.property.plain_books import UNLIMITED, Books, Lodger, Slot
from tests.property.plain_search import Asked, PlainSearch
from tests.property.test_search import MIX, PROFILES, Dice, holder_of, lenient, seeds

OWN = (k.NEIGHBOURHOOD, k.MODEL, k.TENANT)
"""Columns that are numbers given in the order of first sight: compared by what they stand for."""


def content(cluster: Cluster) -> list[Any]:
    """All that a cluster says of itself, numbers of its own resolved."""
    tenants = {number: name for name, number in cluster._tenant_numbers.items()}
    bare = cluster.gpus.copy()
    bare[:, :, OWN] = 0
    nodes = cluster.nodes.copy()
    nodes[:, k.MODELS] = 0  # a mask of kinds by their number, which is told by name below
    told: list[Any] = [bare.tolist(), nodes.tolist(), cluster.members, cluster.isolated_gpus]
    for i, node in enumerate(cluster.members):
        models = cluster.nodes.item(i, k.MODELS)
        named = {kind for number, kind in enumerate(cluster.kinds) if models >> number & 1}
        assert named == {(gpu.model, gpu.memory_bytes) for gpu in node.gpus}
        for j, gpu in enumerate(node.gpus):
            figures = cluster.gpus[i, j]
            told.append((gpu, cluster.kinds[figures[k.MODEL]]))
            if figures[k.MODE] != k.EXCLUSIVE:
                place = cluster.neighbourhoods[int(figures[k.NEIGHBOURHOOD])]
                told.append((place.gpu_model, place.neighbours, place.opaque, cluster.kinds[place.kind]))
                told.append(tenants.get(int(figures[k.TENANT]), int(figures[k.TENANT])))
            told.append(cluster.residents(gpu.uuid))
            told.append(cluster.resident_jobs(gpu.uuid))
    for tenant in map(cluster.tenant_number, ("red", "blue")):
        told += [sorted(cluster.own_rows(tenant, alone=alone)) for alone in (False, True)]
    return told


class Site:
    """A cluster whose nodes come, go and change while jobs hold shares of them."""

    def __init__(self, seed: int) -> None:
        self.dice = Dice(seed)
        self.belief = AdditiveInterference()
        self.cluster = Cluster(MIX, self.belief)
        self.nodes: dict[str, Node] = {}
        self.away: dict[str, Node] = {}
        self.held: dict[tuple[str, int], tuple[Holder, Assignment]] = {}
        self.down: set[str] = set()
        self.books = Books({}, self.belief)
        self.plain = PlainSearch(self.books, PLACEMENTS["best-fit"](), 0, None)
        self.jobs = 0

    def join(self) -> None:
        name = f"n{self.dice.randrange(8)}"
        self.nodes[name] = self.away.pop(name, None) or self.nodes.get(name) or self.dice.node(name)

    def leave(self) -> None:
        if self.nodes:
            name = self.dice.of(*sorted(self.nodes))
            self.away[name] = self.nodes.pop(name)

    def change(self) -> None:
        """A node loses a GPU, gains one, or has another CPU; GPUs are told apart by their UUID alone."""
        if not self.nodes:
            return
        node = self.nodes[self.dice.of(*sorted(self.nodes))]
        extra = Gpu(
            f"{node.node_id}/x{self.dice.randrange(3)}", *self.dice.of(("L4-24GB", 24 << 30), ("G2", None))
        )
        fewer, more = node.gpus[1:], (extra, *(gpu for gpu in node.gpus if gpu.uuid != extra.uuid))
        gpus = self.dice.of(fewer, more, tuple(reversed(node.gpus)))
        self.nodes[node.node_id] = replace(node, gpus=gpus, cpu_milli=self.dice.of(None, 9000, 70000))

    def move(self) -> None:
        """A GPU turns up on another node; the one that had it may not have noticed."""
        having = [name for name in sorted(self.nodes) if self.nodes[name].gpus]
        if not having:
            return
        old, new = self.dice.of(*having), self.dice.of(*sorted(self.nodes))
        gpu = self.dice.of(*self.nodes[old].gpus)
        if all(other.uuid != gpu.uuid for other in self.nodes[new].gpus):
            self.nodes[new] = replace(self.nodes[new], gpus=(*self.nodes[new].gpus, gpu))
        if old != new and self.dice.random() < 0.5:
            self.nodes[old] = without(self.nodes[old], {gpu.uuid})

    def present(self) -> dict[str, Node]:
        """The nodes with the GPUs that are there: of several nodes that name one the first has it."""
        taken: set[str] = set()
        there = {}
        for name in sorted(self.nodes):
            there[name] = without(self.nodes[name], taken)
            taken |= {gpu.uuid for gpu in self.nodes[name].gpus}
        return there

    def take(self) -> None:
        """A worker moves in somewhere, by its own books; what vanished stays its own."""
        self.jobs += 1
        request = self.dice.request(calm=False)
        job = Job(f"job-{self.jobs}", request, 0.0, self.jobs, tenant=self.dice.of("red", "blue"))
        profile = self.dice.of(*PROFILES)
        there = self.present()
        free = {name: node for name, node in there.items() if name not in self.down and not self.torn(node)}
        self.books.nodes = free
        place = self.plain.worker(Asked(job, profile, self.plain.placement, self.books.belief), 0, None)
        if place is None:
            return
        assignment = Assignment(0, place.node_id, place.shares)
        self.books.take(job, profile, assignment)
        self.held[job.job_id, 0] = holder_of(job, profile), assignment
        self.cluster.allocate(*self.held[job.job_id, 0])

    def torn(self, node: Node) -> bool:
        """Whether somebody holds a GPU that is not there now: the plain books cannot tell what is free."""
        uuids = {gpu.uuid for gpu in node.gpus}
        here = [held for _holder, held in self.held.values() if held.node_id == node.node_id]
        return any(share.gpu_uuid not in uuids for held in here for share in held.shares)

    def give(self) -> None:
        if self.held:
            key = self.dice.of(*sorted(self.held))
            del self.held[key]
            self.books.drop(key[0])
            assert self.cluster.release(*key) is not None

    def switch(self) -> None:
        if self.nodes:
            name, up = self.dice.of(*sorted(self.nodes)), self.dice.random() < 0.5
            (self.down.discard if up else self.down.add)(name)
            self.cluster.set_up(name, up=up)

    def renew(self) -> None:
        """What is known of somebody is no longer what it was."""
        if self.held:
            key = self.dice.of(*sorted(self.held))
            holder, assignment = self.held[key]
            other = replace(holder, profile=self.dice.of(*PROFILES), max_slowdown=self.dice.of(None, 2.5))
            self.held[key] = other, assignment
            self.cluster.renew([other])

    def turn(self) -> None:
        what = self.dice.of(
            *["take"] * 4, "give", "join", "leave", "change", "move", "move", "switch", "renew"
        )
        getattr(self, what)()
        if what in ("join", "leave", "change", "move"):
            self.cluster.set_nodes(self.dice.sample(list(self.nodes.values()), len(self.nodes)))

    def from_scratch(self) -> Cluster:
        cluster = Cluster(MIX, self.belief)
        for name in self.down:
            cluster.set_up(name, up=False)
        cluster.set_nodes(self.nodes.values())
        for holder, assignment in self.held.values():
            cluster.allocate(holder, assignment)
        return cluster


def without(node: Node, uuids: set[str]) -> Node:
    return replace(node, gpus=tuple(gpu for gpu in node.gpus if gpu.uuid not in uuids))


def figures(cluster: Cluster) -> list[Any]:
    """Who is on which GPU and what is left of it and of its node."""
    told: list[Any] = []
    for row, node in enumerate(cluster.members):
        free = [cluster.nodes.item(row, c) for c in (k.FREE_SUM, k.EMPTIES, k.SIZE, k.CPU_FREE, k.RAM_FREE)]
        there = cluster.gpus[row, :, k.MODE] != k.ABSENT
        told.append((node.node_id, free, int(there.sum())))
        for slot, gpu in enumerate(node.gpus):
            residents = [(tenancy.job_id, tenancy.share) for tenancy in cluster.residents(gpu.uuid)]
            left = [cluster.gpus.item(row, slot, c) for c in (k.FREE_MILLI, k.FREE_MEMORY)]
            told.append((gpu.uuid, cluster.gpus.item(row, slot, k.MODE) == k.EMPTY, residents, left))
    return told


def plain_figures(site: Site) -> list[Any]:
    """The same from the list of who holds what, and from nothing else."""
    told: list[Any] = []
    books = Books(site.present(), site.belief)
    for name, node in books.nodes.items():
        held = sorted((key, holder, a) for key, (holder, a) in site.held.items() if a.node_id == name)
        slots = []
        for gpu in node.gpus:
            shares = [(key[0], s) for key, _h, a in held for s in a.shares if s.gpu_uuid == gpu.uuid]
            slot = Slot(gpu, tuple(Lodger(share, "", False, None, None) for _job, share in shares))
            memory = 0 if slot.mode is Mode.EXCLUSIVE else slot.free_memory
            slots.append((gpu.uuid, not shares, shares, [slot.free_milli, memory]))
        cpu = UNLIMITED if node.cpu_milli is None else node.cpu_milli - sum(h.cpu_milli for _k, h, _a in held)
        ram = UNLIMITED if node.ram_bytes is None else node.ram_bytes - sum(h.ram_bytes for _k, h, _a in held)
        empties = sum(empty for _uuid, empty, _shares, _left in slots)
        milli = sum(left[0] for _uuid, _empty, _shares, left in slots)
        told += [(name, [milli, empties, len(slots), cpu, ram], len(slots)), *slots]
    return told


@settings(lenient, max_examples=30)
@given(seed=seeds)
def test_every_row_holds_what_the_list_of_holdings_says(seed):
    """Whatever came and went, and wherever GPUs turned up meanwhile."""
    site = Site(seed)
    for _ in range(40):
        site.turn()
        assert figures(site.cluster) == plain_figures(site), f"seed {seed}"


@settings(lenient, max_examples=15)
@given(seed=seeds)
def test_any_history_ends_where_a_cluster_from_scratch_begins(seed):
    site = Site(seed)
    for _ in range(30):
        site.turn()
        assert content(site.cluster) == content(site.from_scratch()), f"seed {seed}"


def offered(cluster: Cluster, row: int) -> tuple[int, int, int]:
    """What one GPU of a node offers at most, looked up GPU by GPU: compute by mode, and MIG profiles."""
    gpus = cluster.gpus[row, : len(cluster.members[row].gpus)]
    most = [
        max((int(gpu[k.FREE_MILLI]) for gpu in gpus if gpu[k.MODE] in (k.EMPTY, mode)), default=0)
        for mode in (k.MPS, k.TIMESLICE)
    ]
    profiles = 0
    for gpu in gpus:
        geometry = cluster.geometries[gpu[k.MODEL]]
        if geometry is not None and gpu[k.MODE] in (k.EMPTY, k.MIG):
            starts = geometry.start[gpu[k.MIG_STATE]]
            profiles |= sum(1 << profile for profile in range(len(geometry.profiles)) if starts[profile] >= 0)
    return most[0], most[1], profiles


def told(cluster: Cluster, row: int) -> tuple[int, ...]:
    """The same as the summary of the node says it; its brief must say the same as the summary."""
    columns = cluster.nodes[row]
    assert cluster.briefs[row] == summarise(cluster.gpus[row], columns.copy(), cluster.figures.placeable)
    return tuple(columns[[k.MOST_MPS, k.MOST_TIMESLICE, k.PLACEABLE]].tolist())


@settings(lenient, max_examples=15)
@given(seed=seeds)
def test_the_summary_of_a_node_is_always_what_its_gpus_offer(seed):
    site = Site(seed)
    for _ in range(40):
        site.turn()
        for row in range(len(site.cluster.members)):
            assert told(site.cluster, row) == offered(site.cluster, row), f"seed {seed}"


A100, V100 = ("A100-SXM4-80GB", 80 << 30), ("V100-SXM2-32GB", 32 << 30)


def whole_gpus(*slots: str) -> Assignment:
    return Assignment(0, "n", tuple(Share(slot, Mode.EXCLUSIVE, 1000) for slot in slots))


@pytest.mark.parametrize("taken", ["a", "b", "c", "ab", "bc", "abc"])
def test_whole_gpus_of_several_kinds_on_one_node_are_taken_and_given_back(taken):
    """Two of one kind and one of another: what is left of each kind counts by itself."""
    cluster = Cluster(MIX)
    gpus = (Gpu("a", *A100), Gpu("b", *V100), Gpu("c", *V100))
    cluster.set_nodes([Node("n", gpus)])
    bare = content(cluster)
    cluster.allocate(Holder("job", "red"), whole_gpus(*taken))
    assert told(cluster, 0) == offered(cluster, 0)
    for slot, gpu in enumerate(gpus):
        free = 0 if gpu.uuid in taken else gpu.memory_bytes
        assert cluster.gpus.item(0, slot, k.FREE_MEMORY) == free
        assert cluster.kinds[cluster.gpus.item(0, slot, k.MODEL)] == (gpu.model, gpu.memory_bytes)
    cluster.release("job", 0)
    assert content(cluster) == bare


def test_a_gpu_that_was_taken_whole_counts_by_the_mix_of_today_when_it_is_given_back():
    cluster = Cluster(MIX)
    cluster.set_nodes([Node("n", (Gpu("a", *A100),))])
    cluster.allocate(Holder("job", "red"), whole_gpus("a"))
    cluster.use_mix(())
    cluster.release("job", 0)
    assert cluster.gpus.item(0, 0, k.USABLE) == 0


@settings(lenient, max_examples=10)
@given(seed=seeds)
def test_who_follows_the_log_has_seen_every_change(seed):
    """Also when the log is cut, or the neighbourhoods are numbered anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(change_log, "LOG_LIMIT", 6)
        site = Site(seed)
        seen, generation, copy = site.cluster.log.changes, site.cluster.generation, None
        for i in range(60):
            site.turn()
            if i % 7 == 3:
                site.cluster.neighbourhoods.sweep()
            if site.dice.random() < 0.5:
                continue
            rows = site.cluster.log.since(seen)
            if generation != site.cluster.generation or rows is None or copy is None:
                rows = range(len(site.cluster.members))
                copy = site.cluster.gpus.copy(), site.cluster.nodes.copy()
            for row in rows:
                copy[0][row], copy[1][row] = site.cluster.gpus[row], site.cluster.nodes[row]
            assert np.array_equal(copy[0], site.cluster.gpus), f"seed {seed}"
            assert np.array_equal(copy[1], site.cluster.nodes), f"seed {seed}"
            seen, generation = site.cluster.log.changes, site.cluster.generation
        site.cluster.neighbourhoods.sweep()
        assert site.cluster.neighbourhoods.set_aside == 0
        assert content(site.cluster) == content(site.from_scratch())


def test_the_log_says_what_changed_until_it_is_cut(monkeypatch):
    monkeypatch.setattr(change_log, "LOG_LIMIT", 4)
    cluster = Cluster()
    cluster.set_nodes([Node("a"), Node("b")])
    begin = cluster.log.changes
    for name in ("a", "b", "a", "b"):
        cluster.set_up(name, up=False)
    assert cluster.log.since(begin).tolist() == [0, 1, 0, 1]
    assert cluster.log.since(cluster.log.changes).tolist() == []
    cluster.set_up("b", up=True)
    assert cluster.log.changes == begin + 5
    assert cluster.log.since(begin) is None
    assert cluster.log.since(begin + 4).tolist() == [1]


WHOLE = frozenset({Mode.EXCLUSIVE})


def held(job_id: str, node_id: str, uuid: str) -> tuple[Holder, Assignment]:
    job = Job(job_id, Request(modes=WHOLE, isolation=Isolation.NONE), 0.0, 1)
    return holder_of(job, None), Assignment(0, node_id, (Share(uuid, Mode.EXCLUSIVE, 1000),))


@pytest.mark.parametrize("first", ["it left before", "both moved at once", "it is seen twice for a while"])
def test_a_gpu_turns_up_on_another_node(first):
    """It is free there, since its holder ran where it was; and comes back to its holder if it returns."""
    gpu = Gpu("g", "V100-SXM2-32GB", 32 << 30)
    here, there, none_here, none_there = Node("a", (gpu,)), Node("b", (gpu,)), Node("a"), Node("b")
    steps = {
        "it left before": [[here, none_there], [none_here, none_there], [none_here, there]],
        "both moved at once": [[here, none_there], [none_here, there]],
        "it is seen twice for a while": [[here, none_there], [here, there], [none_here, there]],
    }[first]
    cluster = Cluster()
    cluster.set_nodes(steps[0])
    cluster.allocate(*held("one", "a", "g"))
    for step in steps[1:]:
        cluster.set_nodes(step)
    assert cluster.is_on("g", "b")
    assert not cluster.is_on("g", "a")
    assert cluster.gpu("g") is gpu
    assert cluster.residents("g") == ()
    assert cluster.nodes[:, k.EMPTIES].tolist() == [0, 1]
    cluster.allocate(*held("two", "b", "g"))
    assert [tenancy.job_id for tenancy in cluster.residents("g")] == ["two"]
    cluster.release("one", 0)
    assert [tenancy.job_id for tenancy in cluster.residents("g")] == ["two"]
    cluster.release("two", 0)
    assert cluster.nodes[:, k.EMPTIES].tolist() == [0, 1]
    assert cluster.nodes[:, k.FREE_SUM].tolist() == [0, 1000]
