"""Who gets which place: the waiting line, the search, and those who are moved or pushed out."""

from __future__ import annotations

from collections.abc import Callable

from placement.ask import Demand
from placement.attempts import Attempts
from placement.claims import Claims
from placement.cluster import Cluster
from placement.explain import ruled_out
from placement.forecasts import Forecasts
from placement.freed import Freed
from placement.ledger import Ledger
from placement.lifecycle import JobRecord, JobState, Move
from placement.model import Assignment, Outcome, StopCause
from placement.moving import Moving
from placement.planned import Planned
from placement.policies import Policy, aging_of
from placement.preemption import Preemption, Wish
from placement.repartition import Plan
from placement.search import Search
from placement.trials import Trials
from placement.waiting import Group, RankKey, WaitingLine


class Placer:
    """Gives places to waiting jobs in the order of the policy and takes places back."""

    def __init__(self, ledger: Ledger, attempts: Attempts, policy: Policy, search: Search) -> None:
        self.cluster: Cluster = search.cluster
        self.planned = Planned(policy.placement.planner(), search.cluster, ledger)
        self.trials = Trials(search, ledger, on=policy.placement.trials)
        self._moving = Moving(search, ledger) if policy.placement.repartitions else None
        self.decisions = 0
        self._ledger = ledger
        self._attempts = attempts
        self._order = policy.order
        self._search = search
        self._forecasts = Forecasts(search.cluster, search.belief, ledger)
        self.explains = False
        self._preemption = (
            Preemption(self.cluster, search, aging_of(policy.order)) if policy.order.preemptive else None
        )
        self._claims = Claims(ledger)
        self._tenants_apart = False
        self._freed = Freed(search.cluster)
        self._round = 0
        self.line = self._empty_line()

    # -- the waiting line ----------------------------------------------------------------------------------

    def _empty_line(self) -> WaitingLine:
        return WaitingLine(self._order, inventive=self._moving is not None, by_owner=self.planned.on)

    def queue(self, record: JobRecord) -> None:
        """Put a job in the waiting line that was not there before."""
        if self._moving is not None:
            self._moving.entered(record)
        self.line_up(record)

    def line_up(self, record: JobRecord) -> None:
        """Put a job in the waiting line that has waited already."""
        self.line.push(record, self._search.demand(record.job, self._ledger.profile_of(record.job)))

    def queue_again(self) -> None:
        """Form the groups anew: what makes demands equal has changed."""
        waiting = self.line.ordered()
        self.line = self._empty_line()
        for record in waiting:
            self.line_up(record)

    def profile_changed(self, name: str) -> None:
        """A profile has another meaning: for those who wait, and for those who hold shares."""
        holding = [
            record.job
            for record in self._ledger
            if (record.assignments or record.next_place) and record.job.profile == name
        ]
        if holding:
            self.cluster.renew(self._ledger.holder_of(job) for job in holding)
        self.queue_again()

    def nodes_changed(self) -> None:
        """Nodes came, went or changed: everything is worth another try."""
        if self._moving is not None:
            self._moving.stir()
        self.planned.lay_out()
        if self._preemption is not None:
            self._preemption.relocate()
        for group in list(self.line.blocked_groups()):
            self.line.reopen(group)

    # -- deciding ------------------------------------------------------------------------------------------

    def decide(self, now_s: float, turn_away: Callable[[JobRecord, float], None]) -> None:
        """Place whoever can be placed, in order, until nothing freed on the way could help anyone.

        Jobs that would not wait are turned away when their turn comes and they do not fit.
        """
        self._round += 1
        if self._moving is not None:
            self._moving.begin(self.line, self._freed.rows)
        while True:
            if self._tenants_apart != bool(self.cluster.isolated_gpus):
                # From now on it matters, or no longer does, who asks: the groups are others.
                self._tenants_apart = not self._tenants_apart
                self.queue_again()
            if self._freed.rows:  # by a push-out just now, too: those it helps come before those behind it
                self._reopen_groups(now_s)
            first = self.line.first() or self._first_after_growth(now_s)
            if first is None:
                break
            key, record, group = first
            if group.hope == self._round and not self._hope_for(group.demand):
                self.line.block(record.job.job_id)
            elif not self._placed(Wish(record, group.demand, key, now_s)):
                self._wait_or_go(record, now_s, turn_away)
        self._freed.told = []
        if self._moving is not None:
            self._moving.end()
        if self._claims.due:
            self._start_claims(now_s)

    def _first_after_growth(self, now_s: float) -> tuple[RankKey, JobRecord, Group] | None:
        """Larger slices for residents, then who waits and may be helped by what they leave, if anybody."""
        plans = [] if self._moving is None else self._moving.growths(now_s)
        for plan in plans:
            self._move_all(plan, now_s)
        if not plans:
            return None
        self._reopen_groups(now_s)
        return self.line.first()

    def _wait_or_go(
        self, record: JobRecord, now_s: float, turn_away: Callable[[JobRecord, float], None]
    ) -> None:
        if record.job.immediate and record.attempt == 0:
            self.line.discard(record.job.job_id)
            turn_away(record, now_s)
        else:
            self.line.block(record.job.job_id)

    def _placed(self, wish: Wish) -> bool:
        """Place the first in line, if need be by moving or pushing out others; gives whether it could."""
        record, moving = wish.record, self._moving
        if self.planned.on and self.planned.concerns(record.job):
            return self._placed_by_plan(wish)
        outcome = Outcome.FIT
        if moving is not None and (recut := moving.recut(wish)) is not None:
            assignments: tuple[Assignment, ...] | None = self._move_all(recut, wish.now_s, record)
            outcome = Outcome.REPARTITION if recut.moves else Outcome.FIT
        else:
            assignments = self._place(record, wish.demand)
        if assignments is None and moving is not None and (moves := moving.plan(wish)) is not None:
            assignments, outcome = self._move_all(moves, wish.now_s, record), Outcome.REPARTITION
        if assignments is None and self._preemption is not None:
            outcome = Outcome.PREEMPT
            victims = self._preemption.plan(wish, self._ledger.holder_of(record.job))
            if victims is not None:
                for job_id in victims:
                    self._push_out(job_id, wish.now_s)
                assignments = self._place(record, wish.demand)
        if assignments is None:
            return False
        self.line.discard(record.job.job_id)
        record.outcome = outcome
        self._take(record, assignments, wish.now_s)
        return True

    def _placed_by_plan(self, wish: Wish) -> bool:
        """Place the first in line where the policy's planner says; gives whether it has a place."""
        record = wish.record
        place = self.planned.find(record)
        if place is None:
            return False
        for job_id in place.evictions:
            self._push_out(job_id, wish.now_s)
        self.line.discard(record.job.job_id)
        record.outcome = Outcome.PREEMPT if place.evictions else Outcome.FIT
        self._take(record, self.planned.settle(record.job, place.parts), wish.now_s)
        return True

    def _move_all(
        self, plan: Plan, now_s: float, newcomer: JobRecord | None = None
    ) -> tuple[Assignment, ...]:
        """Have residents leave for where they go on, which is kept for them, and account for a newcomer."""
        leaving = [(self._ledger.find(move.job_id), move.place) for move in plan.moves]
        movers = [(record, place) for record, place in leaving if record is not None]
        for record, _place in movers:
            self._vacate(record, now_s)
        if newcomer is not None:
            self._allocate(newcomer, plan.place)
        for record, place in movers:
            self._allocate(record, place)
            record.next_place, record.outlook = place, None
            self._attempts.stop(record, StopCause.MOVED, now_s)
        return plan.place

    def _allocate(self, record: JobRecord, place: tuple[Assignment, ...]) -> None:
        for assignment in place:
            self.cluster.allocate(self._ledger.holder_of(record.job), assignment)

    def _place(self, record: JobRecord, demand: Demand) -> tuple[Assignment, ...] | None:
        if not self._search.promising(demand, record.job):
            return None
        candidates = self._search.candidate_nodes(demand)
        reasons = ruled_out(self._search, demand) if self.explains else {}
        assignments = self._search.place(self._ledger.holder_of(record.job), demand, record.job)
        if assignments is not None:
            record.candidates, record.ruled_out = candidates, reasons
        return assignments

    def _reopen_groups(self, now_s: float) -> None:
        """Groups that what was freed could help are worth another try."""
        self._freed.tell()
        for group in list(self.line.blocked_groups()):
            if self.planned.on or (
                self._moving is not None and self._moving.retries(self.line.head_of(group)[1].job.job_id)
            ):
                self.line.reopen(group)
                continue
            if self._preemption is None:
                if self._hope_for(group.demand):
                    self.line.reopen(group, hope=self._round)
                continue
            key, record = self.line.head_of(group)
            if self._preemption.could_help(Wish(record, group.demand, key, now_s), self._freed.told):
                self.line.reopen(group)

    def _hope_for(self, demand: Demand) -> bool:
        """Whether what was freed on the way, as far as it is still free, might be what a demand lacked."""
        return self._freed.might_help(self._search.ask_of(demand), demand.request.gpus)

    def _take(self, record: JobRecord, assignments: tuple[Assignment, ...], now_s: float) -> None:
        """Account a job for its shares and start it, at once or when those who sit there have left."""
        self._freed.used()
        self.decisions += 1
        if self._claims.waits(record, assignments):
            self._claim(record, assignments, now_s)
            return
        record.assignments = assignments
        self._forecasts.entered(record, now_s)
        if self.planned.on:
            self.planned.take(record.job, assignments)
        self._attempts.start(record, Move.PLACE, now_s)
        if self.trials.on:
            self.trials.began(record, now_s)
        self._stake(record)

    def _claim(self, record: JobRecord, assignments: tuple[Assignment, ...], now_s: float) -> None:
        """Account a job for its shares; it starts when those who sit there have left."""
        record.assignments = assignments
        self._forecasts.entered(record, now_s)
        self.planned.take(record.job, assignments)
        self._claims.add(record)
        record.placed_s = now_s
        self._ledger.note(record.move(Move.CLAIM, now_s))
        self._stake(record)

    def _stake(self, record: JobRecord) -> None:
        if self._preemption is not None:
            since_s = None if record.state is JobState.PLACED else record.placed_s
            self._preemption.add(record, self._order.rank(record.job, record.remaining_s()), since_s)

    def _push_out(self, job_id: str, now_s: float) -> None:
        """Make a job give up its place."""
        record = self._ledger.find(job_id)
        if record is None:
            return
        if record.state is JobState.PLACED:
            self.decisions += 1
            self._unplace(record, now_s)
            return
        stopping = record.state is JobState.STOPPING
        self._vacate(record, now_s)
        if stopping:  # it has been told, and why
            self._ledger.touch(job_id)
        else:
            self._attempts.stop(record, StopCause.PREEMPTED, now_s)

    def _vacate(self, record: JobRecord, now_s: float) -> None:
        """A job is to leave: its shares are free for others to be accounted for, if not yet to be used."""
        self.decisions += 1
        sitting = tuple(held for held in record.assignments if held.worker not in record.exited_workers)
        self.give_back(record, now_s)
        record.vacating = sitting
        self._claims.leaving(record, sitting)

    def _unplace(self, record: JobRecord, now_s: float) -> None:
        """A claim came to nothing: back to the waiting line."""
        self.give_back(record, now_s)
        self._ledger.note(record.move(Move.UNPLACE, now_s))
        self.queue(record)

    def what_it_takes(self, record: JobRecord, now_s: float) -> tuple[Outcome, int]:
        """What would let in a job that does not fit, and at how many places moves would cost too much."""
        demand = self._search.demand(record.job, self._ledger.profile_of(record.job))
        wish = Wish(record, demand, self.line.key_of(record.job.job_id), now_s)
        worth_it, dear = (False, 0) if self._moving is None else self._moving.prospect(wish)
        if worth_it:
            return Outcome.REPARTITION, dear
        holder = self._ledger.holder_of(record.job)
        pushes = self._preemption is not None and self._preemption.plan(wish, holder) is not None
        return Outcome.PREEMPT if pushes else Outcome.NO_FIT, dear

    # -- taking back ---------------------------------------------------------------------------------------

    def give_back_worker(self, record: JobRecord, worker: int, now_s: float) -> None:
        """Free what one worker holds; what is kept for a job that is being moved stays its own."""
        if record.next_place:
            return
        job_id = record.job.job_id
        if self._preemption is not None:
            self._preemption.remove_worker(job_id, worker)
        if self.planned.on:
            self.planned.give(job_id, worker)
        if self.trials.on:
            self.trials.left(job_id, now_s)
        assignment = self.cluster.release(job_id, worker)
        if assignment is not None and self.cluster.has_node(assignment.node_id):
            self._freed.rows.add(self.cluster.row_of(assignment.node_id))
            self._forecasts.left((assignment,), now_s)

    def give_back(self, record: JobRecord, now_s: float) -> None:
        """Free all that a job is accounted for, and drop its claim if it has one."""
        for assignment in record.assignments:
            if assignment.worker not in record.exited_workers:  # else it has given back when it exited
                self.give_back_worker(record, assignment.worker, now_s)
        self._forecasts.ended(record, now_s)
        record.assignments = ()
        self._claims.drop(record)
        if self._preemption is not None:
            self._preemption.remove(record.job.job_id)

    def stop(self, record: JobRecord, cause: StopCause, now_s: float) -> None:
        """Tell a job to end; what it holds is freed when it has, and nobody needs to push it out for that."""
        if self._preemption is not None:
            self._preemption.remove(record.job.job_id)
        self._attempts.stop(record, cause, now_s)

    def left(self, record: JobRecord, now_s: float) -> None:
        """A job has left the places it was to leave: who waited for that may start when all is decided."""
        self._claims.left(record)
        for other in self._claims.ready():
            if not all(map(self.cluster.can_start, other.assignments)):
                self._unplace(other, now_s)

    def arrive(self, record: JobRecord, now_s: float) -> None:
        """A job that is being moved has left its old place: it goes on where its shares are kept for it."""
        place = record.next_place
        if not all(map(self.cluster.can_start, place)):
            self.moves_nowhere(record, now_s)
            self.queue(record)
            return
        record.next_place = ()
        record.moves += 1
        record.outcome = Outcome.REPARTITION
        self._claim(record, place, now_s)
        if self._preemption is not None:  # it may be pushed out from now on: that may help one who waits
            self._freed.rows.update(self.cluster.row_of(held.node_id) for held in place)
        self._claims.due = True

    def moves_nowhere(self, record: JobRecord, now_s: float) -> None:
        """Free what is kept for a job that is being moved, if it is: it ends, or its new place is gone."""
        place, record.next_place = record.next_place, ()
        for assignment in place:
            self.give_back_worker(record, assignment.worker, now_s)

    def _start_claims(self, now_s: float) -> None:
        """Start whoever waited for others to leave; last, since one who left may have taken a place back."""
        for record in self._claims.take_ready():
            self._attempts.start(record, Move.START, now_s)
            self.trials.began(record, now_s)
            self._forecasts.began(record, now_s)
            self._stake(record)

    def resume(self, record: JobRecord) -> None:
        """Account again for what a job held when the scheduler was stopped."""
        if record.state is JobState.PLACED:
            self._claims.resume(record)
        holder = self._ledger.holder_of(record.job)
        for assignment in record.assignments:
            if assignment.worker not in record.exited_workers:
                self.cluster.allocate(holder, assignment)
                self.planned.take(record.job, [assignment])
        self._allocate(record, record.next_place)
        self.trials.resumed(record)
        self._claims.leaving(record, record.vacating)
        self._attempts.watch(record)
        if record.assignments and record.state is not JobState.STOPPING:
            self._stake(record)
        self._tenants_apart = bool(self.cluster.isolated_gpus)
