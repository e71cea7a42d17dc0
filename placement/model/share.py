"""What a job holds: shares of GPUs, grouped by worker."""

from __future__ import annotations

from dataclasses import dataclass

from placement.model.frozen import made_often
from placement.model.job import Mode


@made_often
@dataclass(frozen=True, slots=True)
class Share:
    """A whole GPU, a MIG slice, an MPS share or a time slice: all one kind of thing.

    ``memory_bytes`` None means that the job stated none (it is then not accounted).  A MIG slice is known by
    (``gpu_uuid``, ``mig_profile``, ``mig_start``), where the start is the first memory slice; an MPS share or
    a time slice that names one lies in it, beside the other shares of the same worker.
    """

    gpu_uuid: str
    mode: Mode
    compute_milli: int
    memory_bytes: int | None = None
    mig_profile: str | None = None
    mig_start: int | None = None

    @property
    def gpu_mode(self) -> Mode:
        """The mode that its GPU is in: MIG, too, for a share of a slice."""
        return self.mode if self.mig_profile is None else Mode.MIG


@made_often
@dataclass(frozen=True, slots=True)
class Assignment:
    """Where one worker of a job runs and what it holds there.

    ``cell`` is the size of its tenant's cell around its GPUs, None if it lies in none: policies that promise
    cells keep it there over a restart.
    """

    worker: int
    node_id: str
    shares: tuple[Share, ...]
    cell: int | None = None
