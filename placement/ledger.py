"""The book of all jobs: their records, the known profiles, and what this step has moved and ordered."""

from __future__ import annotations

from collections.abc import Iterator

from placement.lifecycle import JobRecord, Transition
from placement.lodgings import Holder
from placement.model import Command, Isolation, Job, Profile


class Ledger:
    """Records by job id in the order of submission, profiles by name, and the pages of the current step."""

    def __init__(self) -> None:
        self.profiles: dict[str, Profile] = {}
        self._records: dict[str, JobRecord] = {}
        self._transitions: list[Transition] = []
        self._commands: list[Command] = []
        self._touched: set[str] = set()

    def __iter__(self) -> Iterator[JobRecord]:
        return iter(self._records.values())

    def find(self, job_id: str) -> JobRecord | None:
        """The record of a job, None if there is none."""
        return self._records.get(job_id)

    def enter(self, record: JobRecord) -> None:
        """Keep the record of a job."""
        self._records[record.job.job_id] = record

    def drop(self, job_id: str) -> None:
        """Keep the record of a job no longer."""
        del self._records[job_id]

    def note(self, transition: Transition) -> None:
        """Write down a move."""
        self._transitions.append(transition)
        self._touched.add(transition.job_id)

    def order(self, command: Command) -> None:
        """Write down what shall be done."""
        self._commands.append(command)

    def touch(self, job_id: str) -> None:
        """Say that a record has changed without a move."""
        self._touched.add(job_id)

    def close_page(self) -> tuple[tuple[Transition, ...], tuple[Command, ...], frozenset[str]]:
        """What was written down since the last time, and whose records have changed."""
        page = tuple(self._transitions), tuple(self._commands), frozenset(self._touched)
        self._transitions.clear()
        self._commands.clear()
        self._touched.clear()
        return page

    def profile_of(self, job: Job) -> Profile | None:
        """The profile that a job names, None if it names none or an unknown one."""
        return None if job.profile is None else self.profiles.get(job.profile)

    def holder_of(self, job: Job) -> Holder:
        """The job as the cluster sees it."""
        request = job.request
        return Holder(
            job.job_id,
            job.tenant,
            self.profile_of(job),
            request.max_slowdown,
            request.isolation is Isolation.TENANT,
            request.cpu_milli,
            request.ram_bytes,
            int(job.lifetime),
        )
