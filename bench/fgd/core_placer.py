"""The project's decision core as the one who decides in the experiment.

Every pod is submitted as a job; one that does not fit waits, and as nobody ever leaves, it waits for ever.
A part of a GPU is asked for as a time slice, so that nothing but its thousandths limits who shares it.  The
core is told how often each request is made in the workload, FGD only that of the typical pods (as in the
artifact; with all of them it would be another policy), and the trial's order of nodes by names that are mere
numbers.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

from bench.fgd.arrivals import Trial
from bench.fgd.books import Place
from bench.fgd.experiment import Placer
from bench.fgd.inputs import PodRow
from bench.fgd.typical import TypicalPod, typical_pods
from placement.interference import model_named
from placement.mix import Mix, UsualRequest
from placement.model import Gpu, Job, JobSubmitted, Mode, Node, NodeJoined, Request
from placement.options import Options
from placement.policies import policy_named
from placement.scheduler import Scheduler

_MIB = 1 << 20


def core_placer(trial: Trial, policy: str) -> Placer:
    """The decision core under a placement policy, with the trial's nodes in the trial's order."""
    return _CorePlacer(trial, policy)


@cache
def _request(pod: PodRow) -> Request:
    return Request(
        gpus=pod.gpus,
        compute_milli=pod.gpu_milli or None,
        gpu_models=_models(pod.models),
        modes=frozenset({Mode.TIMESLICE if pod.is_share else Mode.EXCLUSIVE}),
        cpu_milli=pod.cpu_milli,
        ram_bytes=pod.memory_mib * _MIB,
    )


def _models(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in text.split("|") if name))


def _usual(pod: TypicalPod) -> UsualRequest:
    row = PodRow(pod.cpu_milli, 0, pod.gpus, pod.gpu_milli, pod.models)
    return UsualRequest(_request(row), pod.count)


def _mix(trial: Trial, policy: str) -> Mix:
    if policy == "fgd":
        return tuple(_usual(pod) for pod in typical_pods(trial.listed))
    counts = Counter(trial.listed)
    return tuple(UsualRequest(_request(pod), counts[pod]) for pod in sorted(counts, key=str))


class _CorePlacer:
    def __init__(self, trial: Trial, policy: str) -> None:
        options = Options(seed=trial.seed, exact=True, mix=_mix(trial, policy))
        self._scheduler = Scheduler(policy_named(policy), model_named("none"), options)
        self._arrived = 0
        nodes = [
            Node(
                f"{number:05d}",
                tuple(Gpu(f"{number}/{slot}", row.model) for slot in range(row.gpus)),
                row.cpu_milli,
                row.memory_mib * _MIB,
            )
            for number, row in enumerate(trial.nodes)
        ]
        self._scheduler.step([NodeJoined(node) for node in nodes], 0.0)

    def place(self, pod: PodRow) -> Place | None:
        number, self._arrived = self._arrived, self._arrived + 1
        # Nobody is moved in this experiment.
        job = Job(str(number), _request(pod), submit_s=float(number), sequence=number, preemptible=False)
        self._scheduler.step([JobSubmitted(job)], float(number))
        assignments = self._scheduler.record(job.job_id).assignments
        if not assignments:
            return None
        shares = assignments[0].shares
        slots = tuple(int(share.gpu_uuid.partition("/")[2]) for share in shares)
        return Place(int(assignments[0].node_id), slots)
