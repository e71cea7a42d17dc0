"""One run of ``bench/decisions.py``: fill a cluster, keep it full, and time every decision.

A decision is the search and the commit of its shares; what ``Scheduler.step`` keeps beside it is not timed.

``python -m bench.decision_run PLAN`` does one, so that its memory is its own.  The collector of garbage is
set as the simulator sets it (what lives at the start is frozen, the young are looked at every 100,000
objects); what a cluster holds once it is full is frozen too, as for a manager that begins with these jobs.
"""

from __future__ import annotations

import gc
import json
import random
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.decision_stream import (
    PROFILES,
    Arrival,
    Stream,
    StreamKind,
    Wanted,
    build_nodes,
    usual_requests,
)
from bench.feasibility import Books
from placement.ask import MODE_STEP
from placement.cluster import Cluster
from placement.engine import compile_kernels
from placement.interference import model_named
from placement.jit import numba
from placement.lodgings import Holder
from placement.model import Assignment, Isolation, Mode, Node
from placement.options import SIGHT, Options
from placement.partition import MODE_ORDER
from placement.policies import policy_named
from placement.scheduler import REVIEW_EVERY
from placement.search import Search
from simulator.engine import calm_collector

TARGET_MILLI_PER_GPU = 900
"""Jobs leave, one after the other, while more than so much of the compute is taken."""

BELIEF = model_named("additive")

REFUSALS = 500
"""So many in a row while a cluster is filled mean that it never will be."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one run does: its cluster, its stream, its policy, and how many decisions of each phase."""

    gpus: int
    stream: StreamKind
    policy: str
    seed: int = 5
    steps: int = 3000
    loss_steps: int = 0
    check_steps: int = 0
    compiled: bool = True
    exact: bool = False
    sight: int = SIGHT


class Engine:
    """The one place that knows how the product decides: everything that its scheduler does for one job.

    Several engines may decide on one cluster: then one says where a job would go and another puts it there.
    """

    def __init__(self, cluster: Cluster, plan: Plan, *, exact: bool) -> None:
        self.cluster = cluster
        self._placement = policy_named(plan.policy).placement
        options = Options(plan.seed, plan.compiled, exact, sight=plan.sight, mix=usual_requests())
        self._search = Search(cluster, self._placement, BELIEF, options)
        self._placed = 0
        if plan.compiled:
            compile_kernels(self._placement)

    @property
    def weighs_modes(self) -> bool:
        """Whether scores in different modes can be compared."""
        return self._placement.any_mode

    def decide(self, arrival: Arrival) -> tuple[Assignment, ...] | None:
        """Find places for all workers of a job and take them, or None; now and then review the prices."""
        assignments = self.try_out(arrival)
        self._placed += assignments is not None
        if assignments is not None and self._placed % REVIEW_EVERY == 0:
            self._search.review_prices()
        return assignments

    def try_out(self, arrival: Arrival) -> tuple[Assignment, ...] | None:
        """The same without the review."""
        job, profile, request = arrival.job, arrival.profile, arrival.job.request
        self._search.entered(job)
        demand = self._search.demand(job, profile)
        if not self._search.promising(demand, job):
            return None
        holder = Holder(
            job.job_id,
            job.tenant,
            profile,
            request.max_slowdown,
            request.isolation is Isolation.TENANT,
            request.cpu_milli,
            request.ram_bytes,
        )
        return self._search.place(holder, demand, job)

    def over(self, arrival: Arrival) -> None:
        """A job has ended, or was refused and does not wait."""
        self._search.left(arrival.job)
        self._search.tidy()

    def release(self, job_id: str, assignments: Sequence[Assignment]) -> None:
        """Take back what a job holds."""
        for assignment in assignments:
            self.cluster.release(job_id, assignment.worker)

    def price_as(self, other: Engine) -> None:
        """Weigh what is scarce as another engine does on the same cluster."""
        self._search.prices.levels = other._search.prices.levels

    def score(self, arrival: Arrival, assignment: Assignment) -> int:
        """The score of a worker's node before the worker got there; it must be gone again.

        Of policies that do not weigh the modes, without the step that lies between them.
        """
        demand = self._search.demand(arrival.job, arrival.profile)
        score = self._search.score_on(demand, self.cluster.row_of(assignment.node_id)) or 0
        if self.weighs_modes or not assignment.shares:
            return score
        return score - MODE_STEP * MODE_ORDER.index(assignment.shares[0].mode)


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided for an arrival, and what it cost."""

    arrival: Arrival
    assignments: tuple[Assignment, ...] | None
    cpu_ns: int
    wall_ns: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A job that holds shares, and how much compute in all."""

    arrival: Arrival
    assignments: tuple[Assignment, ...]
    milli: int


@dataclass(slots=True)
class Churn:
    """A stream that asks an engine, and jobs that leave so that the cluster stays as full as it should be.

    ``books``, where there are any, hear of every decision.
    """

    engine: Engine
    stream: Stream
    target_milli: int
    draw: random.Random
    books: Books | None = None
    held_milli: int = 0
    placed: list[Placed] = field(default_factory=list)

    def fill(self) -> int:
        """Decide until the cluster is as full as it should be; gives the number of decisions.

        Raises:
            SystemExit: it cannot be filled.
        """
        decisions = refusals = 0
        while self.held_milli < self.target_milli:
            refusals = 0 if self.decide(self.stream.arrival()).assignments else refusals + 1
            decisions += 1
            if refusals >= REFUSALS:
                raise SystemExit(f"{refusals} jobs in a row found no place: the cluster cannot be filled")
        return decisions

    def step(self) -> Decision:
        """One decision, and the departures that make up for it."""
        decision = self.decide(self.stream.arrival())
        self.make_room()
        return decision

    def decide(self, arrival: Arrival) -> Decision:
        """Ask the engine, and keep what it says."""
        wall_ns, cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
        assignments = self.engine.decide(arrival)
        cpu_ns, wall_ns = time.thread_time_ns() - cpu_ns, time.perf_counter_ns() - wall_ns
        self.keep(arrival, assignments)
        return Decision(arrival, assignments, cpu_ns, wall_ns)

    def keep(self, arrival: Arrival, assignments: tuple[Assignment, ...] | None) -> None:
        """A job has got its shares; one that got none is gone."""
        if assignments is None:
            self.engine.over(arrival)
            return
        milli = sum(share.compute_milli for each in assignments for share in each.shares)
        self.held_milli += milli
        self.placed.append(Placed(arrival, assignments, milli))
        if self.books is not None:
            self.books.enter(arrival.job, assignments)

    def make_room(self) -> None:
        """Jobs drawn at random leave while the cluster is fuller than it should be."""
        while self.held_milli > self.target_milli:
            at = self.draw.randrange(len(self.placed))
            self.placed[at], self.placed[-1] = self.placed[-1], self.placed[at]
            gone = self.placed.pop()
            self.held_milli -= gone.milli
            self.engine.release(gone.arrival.job.job_id, gone.assignments)
            self.engine.over(gone.arrival)
            if self.books is not None:
                self.books.strike(gone.arrival.job.job_id)


def run(plan: Plan) -> dict[str, Any]:
    """Fill, time, compare and check as planned; gives the figures of the run as they are printed."""
    nodes = build_nodes(plan.gpus)
    usable = policy_named(plan.policy).placement.counts_usable
    cluster = Cluster(usual_requests(), BELIEF, usable=usable)
    cluster.set_nodes(nodes)
    engine = Engine(cluster, plan, exact=plan.exact)
    stream, draw = Stream(plan.stream, plan.seed), random.Random(plan.seed)
    churn = Churn(engine, stream, plan.gpus * TARGET_MILLI_PER_GPU, draw)
    with calm_collector():
        begun_s = time.perf_counter()
        filled = churn.fill()
        fill_s = time.perf_counter() - begun_s
        gc.collect()
        gc.freeze()
        decisions = [churn.step() for _ in range(plan.steps)]
        rss_mib = peak_rss_mib()
        more: dict[str, Any] = {}
        if plan.loss_steps:
            exact = Engine(cluster, plan, exact=True)
            exact.price_as(engine)
            more["loss"] = loss(churn, exact, plan.loss_steps)
        if plan.check_steps:
            more["check"] = check(churn, nodes, plan.check_steps)
    return {
        "gpus": plan.gpus,
        "stream": plan.stream.value,
        "policy": plan.policy,
        "mode": "exact" if plan.exact else "bounded",
        "compiled": plan.compiled and numba is not None,
        **timings(decisions),
        "rss_mib": round(rss_mib, 1),
        "allocated_pct": round(churn.held_milli / plan.gpus / 10, 2),
        "fill": {"decisions": filled, "wall_s": round(fill_s, 1)},
        **more,
    }


def timings(decisions: list[Decision]) -> dict[str, Any]:
    """Percentiles in microseconds of thread CPU time and of wall time, in all and by what was asked for."""
    cpu_us = np.array([each.cpu_ns for each in decisions]) / 1000
    wall_us = np.array([each.wall_ns for each in decisions]) / 1000
    by_kind = {}
    for wanted in Wanted:
        chosen = np.array([each.arrival.wanted is wanted for each in decisions])
        if chosen.any():
            by_kind[wanted.value] = {
                "decisions": int(chosen.sum()),
                "p50_us": _percentile(cpu_us[chosen], 50),
                "p99_us": _percentile(cpu_us[chosen], 99),
            }
    return {
        "steps": len(decisions),
        "p50_us": _percentile(cpu_us, 50),
        "p99_us": _percentile(cpu_us, 99),
        "max_us": _percentile(cpu_us, 100),
        "wall_p50_us": _percentile(wall_us, 50),
        "wall_p99_us": _percentile(wall_us, 99),
        "decisions_per_s": round(1e6 / float(cpu_us.mean()), 1),
        "no_fits": sum(each.assignments is None for each in decisions),
        "by_kind": by_kind,
    }


def _percentile(values: Any, percent: int) -> float:
    return round(float(np.percentile(values, percent)), 1)


def check(churn: Churn, nodes: Sequence[Node], steps: int) -> dict[str, Any]:
    """What a checker with books of its own finds in all that is placed now and in the next decisions."""
    books = Books(nodes, PROFILES)
    for each in churn.placed:
        books.enter(each.arrival.job, each.assignments)
    churn.books = books
    for _ in range(steps):
        churn.step()
    churn.books = None
    wrong = list(dict.fromkeys([*books.found, *books.complaints()]))
    return {"decisions": steps, "violations": len(wrong), "first": [str(each) for each in wrong[:10]]}


def loss(churn: Churn, exact: Engine, steps: int) -> dict[str, Any]:
    """What the bounded answers lose against the full search, asked of both in the same state.

    The score is compared for jobs of one worker that both place, in the same mode unless the policy weighs
    the modes; higher is worse.  An extra refusal is one where the full search finds a place.  Prices are not
    reviewed meanwhile.
    """
    scores: list[tuple[int, int]] = []
    refused = extra = other_mode = 0
    for _ in range(steps):
        arrival = churn.stream.arrival()
        best = _probe(exact, arrival)
        mine = _probe(churn.engine, arrival)
        refused += mine is None
        extra += mine is None and best is not None
        if mine is not None and best is not None and arrival.job.workers == 1:
            if mine.mode is best.mode or exact.weighs_modes:
                scores.append((mine.score, best.score))
            else:
                other_mode += 1
        churn.keep(arrival, churn.engine.try_out(arrival))
        churn.make_room()
    means = [sum(column) / len(scores) for column in zip(*scores, strict=True)] if scores else [0.0, 0.0]
    return {
        "decisions": steps,
        "compared": len(scores),
        "mean_score": round(means[0], 3),
        "mean_score_exact": round(means[1], 3),
        "mean_score_loss": round(means[0] - means[1], 3),
        "worse_pct": round(100 * sum(mine > best for mine, best in scores) / max(len(scores), 1), 2),
        "other_mode": other_mode,
        "no_fits": refused,
        "extra_no_fits": extra,
    }


@dataclass(frozen=True, slots=True)
class _Answer:
    score: int
    mode: Mode | None


def _probe(engine: Engine, arrival: Arrival) -> _Answer | None:
    """Where an engine would put a job; the cluster is as before."""
    assignments = engine.try_out(arrival)
    if assignments is not None:
        engine.release(arrival.job.job_id, assignments)
    answer = None
    if assignments is not None:
        shares = assignments[0].shares
        answer = _Answer(engine.score(arrival, assignments[0]), shares[0].mode if shares else None)
    engine.over(arrival)
    return answer


def peak_rss_mib() -> float:
    """The most memory that this process has held; a parent's is no part of it."""
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Run the plan that is given as JSON, and print the figures."""
    given = json.loads(sys.argv[1])
    print(json.dumps(run(Plan(**{**given, "stream": StreamKind(given["stream"])}))))


if __name__ == "__main__":
    main()
