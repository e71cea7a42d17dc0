"""What the demonstration submits: jobs of three tenants, each asking for a GPU in its own way."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cli.job_file import read_profile_file
from cli.job_options import JobWishes, job_spec_of

if TYPE_CHECKING:
    from manager.wire.models import JobSpec, JobView, ProfileSpec

NODES = ("4xA100-SXM4-80GB", "2xH100-SXM5-80GB")
STEP_MS = {"resnet50": 15, "bert-base": 20, "dlrm": 12, "yolos-serve": 10}
"""Solo time of a step; the profiles say the same as a rate."""


@dataclass(frozen=True, slots=True)
class DemoJob:
    """Which program runs how many steps at whose pace, and the exit status that is expected of it."""

    name: str
    tenant: str
    pace: str
    steps: int
    wishes: JobWishes = field(default_factory=JobWishes)
    program: str = "train.py"
    exit_status: int = 0
    profiled: bool = True

    def spec(self, examples: Path) -> JobSpec:
        """The submission."""
        program = examples / "demo" / self.program
        command = (sys.executable, str(program), str(self.steps), str(STEP_MS[self.pace]))
        wishes = replace(
            self.wishes,
            command=command,
            name=self.name,
            tenant=self.tenant,
            profile=self.pace if self.profiled else None,
            workdir=str(program.parent),
        )
        return job_spec_of(wishes)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A job, what was expected of it, and what became of it."""

    job: DemoJob
    view: JobView

    @property
    def as_expected(self) -> bool:
        """Whether it ended with the exit status that was expected."""
        state = "succeeded" if self.job.exit_status == 0 else "failed"
        return self.view.state.value == state and self.view.exit_code == self.job.exit_status


def _wish(**fields: str | tuple[str, ...] | None) -> JobWishes:
    return replace(JobWishes(), **fields)  # type: ignore[arg-type]


JOBS = (
    DemoJob("resnet-whole", "vision", "resnet50", 400, _wish(mode=("exclusive",))),
    DemoJob(
        "resnet-mps", "vision", "resnet50", 500, _wish(mode=("mps",), compute="45%", gpu_model=("A100",))
    ),
    DemoJob("dlrm-mps", "recsys", "dlrm", 600, _wish(mode=("mps",), compute="30%", gpu_model=("A100",))),
    DemoJob("dlrm-slice", "recsys", "dlrm", 450, _wish(mode=("timeslice",), compute="30%")),
    DemoJob("bert-slice", "language", "bert-base", 300, _wish(mode=("timeslice",), compute="70%")),
    DemoJob(
        "yolos-mig",
        "vision",
        "yolos-serve",
        700,
        _wish(mig_profile="2g.20gb", isolation="hardware", kind="inference"),
        "serve.py",
    ),
    DemoJob("resnet-mig", "vision", "resnet50", 450, _wish(mig_profile="3g.40gb")),
    DemoJob("bert-gang", "language", "bert-base", 300, _wish(workers="2", gpu_model=("H100",)), "gang.py"),
    DemoJob("dlrm-promise", "recsys", "dlrm", 500, _wish(max_slowdown="1.25")),
    DemoJob("yolos-any", "vision", "yolos-serve", 600, _wish(kind="inference", priority="5"), "serve.py"),
    DemoJob("bert-broken", "language", "bert-base", 100, program="fail.py", exit_status=3),
    DemoJob("resnet-any", "vision", "resnet50", 400),
    DemoJob("mystery", "recsys", "resnet50", 300, _wish(memory="10Gi", compute="25%"), profiled=False),
    DemoJob("bert-pair", "language", "bert-base", 200, _wish(gpus="2", mode=("exclusive",))),
)


def profiles(examples: Path) -> Mapping[str, ProfileSpec]:
    """The four profiles that ship, by name."""
    specs = [read_profile_file(examples / "profiles" / f"{pace}.yaml") for pace in STEP_MS]
    return {spec.name: spec for spec in specs}
