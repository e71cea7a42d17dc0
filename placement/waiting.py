"""Who waits, in which order, and whom it is worth trying.

Jobs that ask for the same form a group.  A group whose first job did not fit is blocked: it is not tried
again until something is freed that could help it, so a decision costs what changed and not the length of
the queue.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from placement.ask import Demand
from placement.lifecycle import JobRecord
from placement.model import StateError
from placement.policies import OrderPolicy

RankKey = tuple[int, float, float, int]
"""Priority (negated), rank by the policy, submission time, sequence: lower is earlier."""


@dataclass(slots=True, eq=False)
class Group:
    """Waiting jobs with the same demand and number of workers; ``name`` tells groups apart."""

    demand: Demand
    name: Hashable
    heap: list[tuple[RankKey, str]] = field(default_factory=list)
    blocked: bool = False
    hope: int = 0
    """The round of deciding in which it was opened only because something was freed that might help, or 0."""


class WaitingLine:
    """The queue, ordered by a policy."""

    def __init__(self, order: OrderPolicy, *, inventive: bool = False, by_owner: bool = False) -> None:
        """An ``inventive`` placer may make room for a new first in line that it did not make before.

        With ``by_owner`` what one job does not get, an equal one of another tenant may.
        """
        self._by_owner = by_owner
        self._order = order
        self._strict = order.strict
        self._inventive = inventive or order.preemptive
        self._groups: dict[Hashable, Group] = {}
        self._everyone: list[tuple[RankKey, str]] = []
        self._members: dict[str, tuple[RankKey, JobRecord, Group]] = {}
        self._heads: list[tuple[RankKey, str]] = []  # firsts of open groups, and some that no longer are

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._members

    def push(self, record: JobRecord, demand: Demand) -> None:
        """Queue a job."""
        job = record.job
        key = (-job.priority, self._order.rank(job, record.remaining_s()), job.submit_s, job.sequence)
        owner = (job.tenant, job.preemptible) if self._by_owner else None
        name = (id(demand), job.workers, owner)
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(demand, name)
        self._members[job.job_id] = (key, record, group)
        heapq.heappush(group.heap, (key, job.job_id))
        first = group.heap[0][1] == job.job_id
        if self._inventive and first:
            group.blocked = False  # room may be made for a new first in line that the former did not get
        if self._strict:
            heapq.heappush(self._everyone, (key, job.job_id))
        elif first and not group.blocked:
            heapq.heappush(self._heads, (key, job.job_id))

    def discard(self, job_id: str) -> None:
        """Take a job out of the queue, whatever its place."""
        _key, _record, group = self._members.pop(job_id)
        if self._head(group) is None:
            del self._groups[group.name]
        elif not group.blocked:
            self._offer(group)

    def block(self, job_id: str) -> None:
        """Remember that a job did not fit: its group is not tried until something helps."""
        self._members[job_id][2].blocked = True

    def blocked_groups(self) -> Iterator[Group]:
        """Groups that wait for something to be freed."""
        return (group for group in self._groups.values() if group.blocked)

    def reopen(self, group: Group, *, hope: int = 0) -> None:
        """Try a group again; with ``hope``, a round, only because something was freed that might help."""
        group.blocked, group.hope = False, hope
        self._offer(group)

    def _offer(self, group: Group) -> None:
        if not self._strict and self._head(group) is not None:
            heapq.heappush(self._heads, group.heap[0])

    def first(self) -> tuple[RankKey, JobRecord, Group] | None:
        """The next job worth trying with its place in the order and its group, None if there is none."""
        if not self._members:
            return None
        job_id = self._head_of(self._everyone) if self._strict else self._first_of_open_groups()
        if job_id is None:
            return None
        member = self._members[job_id]
        return None if member[2].blocked else member

    def _first_of_open_groups(self) -> str | None:
        while self._heads:
            key, job_id = self._heads[0]
            member = self._members.get(job_id)
            open_head = member is not None and member[0] == key and not member[2].blocked
            if open_head and member is not None and self._head(member[2]) == job_id:
                return job_id
            heapq.heappop(self._heads)
        return None

    def ordered(self) -> list[JobRecord]:
        """Everybody who waits, first to last."""
        return [
            record for _key, record, _group in sorted(self._members.values(), key=lambda member: member[0])
        ]

    def first_heads(self, most: int) -> list[str]:
        """The first jobs of the groups, first to last, at most so many."""
        if self._strict:
            head = self._head_of(self._everyone)
            return [] if head is None else [head]
        heads = (head for group in self._groups.values() if (head := self._head(group)) is not None)
        return heapq.nsmallest(most, heads, key=lambda job_id: self._members[job_id][0])

    def key_of(self, job_id: str) -> RankKey:
        """The place in the order of a job that waits."""
        return self._members[job_id][0]

    def head_of(self, group: Group) -> tuple[RankKey, JobRecord]:
        """The first of a group and its place in the order."""
        job_id = self._head(group)
        if job_id is None:
            raise StateError("a group of the waiting line has no members")
        return self._members[job_id][:2]

    def _head(self, group: Group) -> str | None:
        return self._head_of(group.heap, group)

    def _head_of(self, heap: list[tuple[RankKey, str]], group: Group | None = None) -> str | None:
        while heap:
            key, job_id = heap[0]
            member = self._members.get(job_id)
            if member is not None and member[0] == key and (group is None or member[2] is group):
                return job_id
            heapq.heappop(heap)
        return None
