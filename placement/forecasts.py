"""What is foreseen for jobs that share GPUs, followed as their company changes."""

from __future__ import annotations

from collections.abc import Iterable

from placement.cluster import Cluster
from placement.interference import InterferenceModel, measured_alone, predictions_of
from placement.ledger import Ledger
from placement.lifecycle import JobRecord, Outlook
from placement.model import Assignment, Mode

Foreseen = tuple[float | None, float | None]
"""Expected slowdown and its upper bound; None is unknown."""

ALONE: Foreseen = (1.0, 1.0)

_EXCLUSIVE = Mode.EXCLUSIVE  # an attribute of an enum is slower to read


def worse(one: Foreseen, other: Foreseen) -> Foreseen:
    """The worse of two forecasts, part by part; the unknown is worse than anything."""
    return _worse(one[0], other[0]), _worse(one[1], other[1])


def _worse(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else max(one, other)


def shared_gpus(assignments: Iterable[Assignment]) -> list[str]:
    """UUIDs of the GPUs that are not held exclusively, each once however many shares there are of it."""
    shares = (share for assignment in assignments for share in assignment.shares)
    return list(dict.fromkeys(share.gpu_uuid for share in shares if share.mode is not _EXCLUSIVE))


def on_gpu(cluster: Cluster, belief: InterferenceModel, gpu_uuid: str) -> dict[str, Foreseen]:
    """What is foreseen on one GPU for each job there; nobody is on a GPU that is not known."""
    lodgers = cluster.resident_jobs(gpu_uuid)
    if not lodgers:
        return {}
    foreseen: dict[str, Foreseen] = {}
    model, known = cluster.gpu(gpu_uuid).model, [(holder.profile, share) for holder, share in lodgers]
    predictions = predictions_of(belief, model, known)
    for (holder, share), prediction in zip(lodgers, predictions, strict=True):
        measured = measured_alone(model, (holder.profile, share))
        here = (prediction.slowdown, prediction.upper) if measured is None else (measured, measured)
        foreseen[holder.job_id] = worse(foreseen.get(holder.job_id, ALONE), here)
    return foreseen


def present(cluster: Cluster, belief: InterferenceModel, record: JobRecord) -> Foreseen:
    """What is foreseen for a job in its present company: the worst over its GPUs."""
    foreseen = ALONE
    for gpu_uuid in shared_gpus(record.assignments):
        here = on_gpu(cluster, belief, gpu_uuid).get(record.job.job_id, (None, None))
        foreseen = worse(foreseen, here)
    return foreseen


class Forecasts:
    """Keeps the forecasts in the records true while jobs come to shared GPUs and leave them.

    A GPU whose company changes is asked about once; what is foreseen on a job's other GPUs is remembered.
    """

    def __init__(self, cluster: Cluster, belief: InterferenceModel, ledger: Ledger) -> None:
        self._cluster = cluster
        self._belief = belief
        self._ledger = ledger
        self._by_gpu: dict[str, dict[str, Foreseen]] = {}

    def entered(self, record: JobRecord, now_s: float) -> None:
        """A job has been given its shares."""
        record.predicted_slowdown = record.predicted_upper = 1.0
        record.outlook = None
        gpus = shared_gpus(record.assignments)
        if gpus:
            record.outlook = Outlook(1.0, now_s)
            self._company_changed(gpus, now_s)

    def began(self, record: JobRecord, now_s: float) -> None:
        """A job that had to wait for its shares begins: only from now on does its company count."""
        if record.outlook is not None:
            record.outlook = Outlook(record.outlook.slowdown, now_s)

    def left(self, assignments: Iterable[Assignment], now_s: float) -> None:
        """Shares have been given back."""
        gpus = shared_gpus(assignments)
        if gpus:
            self._company_changed(gpus, now_s)

    def ended(self, record: JobRecord, now_s: float) -> None:
        """An attempt is over: what was foreseen for it is what it was for the company that it had."""
        self._by_gpu.pop(record.job.job_id, None)
        if record.outlook is not None:
            record.outlook = record.outlook.until(now_s, record.outlook.slowdown)
            record.predicted_slowdown = record.outlook.mean()

    def _company_changed(self, gpu_uuids: Iterable[str], now_s: float) -> None:
        touched: set[str] = set()
        for gpu_uuid in gpu_uuids:
            for job_id, here in on_gpu(self._cluster, self._belief, gpu_uuid).items():
                self._by_gpu.setdefault(job_id, {})[gpu_uuid] = here
                touched.add(job_id)
        for job_id in touched:
            record = self._ledger.find(job_id)
            if record is not None and record.outlook is not None:
                self._turn(record, record.outlook, now_s)

    def _turn(self, record: JobRecord, outlook: Outlook, now_s: float) -> None:
        known = self._by_gpu[record.job.job_id]
        slowdown, upper = ALONE
        for gpu_uuid in shared_gpus(record.assignments):
            if gpu_uuid not in known:  # after a restart
                here = on_gpu(self._cluster, self._belief, gpu_uuid)
                known[gpu_uuid] = here.get(record.job.job_id, (None, None))
            slowdown, upper = worse((slowdown, upper), known[gpu_uuid])
        record.outlook = outlook.until(now_s, slowdown)
        record.predicted_slowdown = record.outlook.mean()
        record.predicted_upper = _worse(record.predicted_upper, upper)
        self._ledger.touch(record.job.job_id)
