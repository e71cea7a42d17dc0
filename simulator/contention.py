"""How fast each job really runs: the truth model asked about the present neighbours, GPU by GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from placement.interference import InterferenceModel, lies_in_slice, measured_alone, predictions_of
from placement.model import Mode, Profile, Share


@dataclass(slots=True, eq=False)
class Running:
    """One job in execution, over all of its attempts.

    ``remaining_s``, ``served_s`` are solo-equivalent seconds and ``elapsed_s`` seconds of running, all as of
    ``since_s``; remaining None never ends.  ``slowdowns`` holds one entry per shared GPU, None where it is
    unknown: the job then runs at solo speed there and counts as not ``measured``.  For ``idle_s`` more it
    does nothing, since it was moved and is only getting back to where it was.
    """

    job_id: str
    solo_s: float | None = None
    remaining_s: float | None = None
    served_s: float = 0.0
    elapsed_s: float = 0.0
    since_s: float = 0.0
    slowdown: float = 1.0
    measured: bool = True
    slowdowns: dict[str, float | None] = field(default_factory=dict)
    attempt: int = 0
    attempt_from_s: float = 0.0
    workers: list[int] = field(default_factory=list)
    gpu_milli: int = 0
    completion: object = None
    idle_s: float = 0.0

    def settle(self, now_s: float) -> None:
        """Account for the work done since the last change of speed."""
        passed_s = now_s - self.since_s
        self.since_s = now_s
        if passed_s <= 0:
            return
        if self.idle_s:
            idle_s = min(self.idle_s, passed_s)
            self.idle_s, passed_s = self.idle_s - idle_s, passed_s - idle_s
        # At solo speed nothing is divided, so that whole seconds stay whole.
        done_s = passed_s if self.slowdown == 1.0 else passed_s / self.slowdown
        self.elapsed_s += passed_s
        self.served_s += done_s
        if self.remaining_s is not None:
            self.remaining_s = max(self.remaining_s - done_s, 0.0)
        if self.slowdowns and None in self.slowdowns.values():
            self.measured = False

    @property
    def observed_slowdown(self) -> float | None:
        """Seconds of running over solo-equivalent seconds; None if ever unknown or if it never ran."""
        return self.elapsed_s / self.served_s if self.measured and self.served_s > 0 else None


class Contention:
    """Residents of every shared GPU, and what they do to each other.

    GPUs held whole are not followed: nobody else can be there, and alone on a whole GPU is the measure
    itself.  How much a MIG slice slows a job is what its profile says (``steps_per_s`` for ``MODEL/SLICE``
    beside that for ``MODEL``); where it does not, what the truth model says.
    """

    def __init__(self, truth: InterferenceModel, gpu_models: Mapping[str, str]) -> None:
        self._truth = truth
        self._gpu_models = gpu_models
        self._residents: dict[str, list[tuple[Running, int]]] = {}
        self._touched: dict[str, None] = {}
        self._numbers: dict[tuple[str | None, Mode, int, str | None, int | None], int] = {}
        self._kinds: list[tuple[Profile | None, Share]] = []
        self._known: dict[tuple[str, tuple[int, ...]], tuple[float | None, ...]] = {}

    def enter(self, run: Running, share: Share, profile: Profile | None) -> None:
        """A job's share of a GPU is in use from now on."""
        name = profile.name if profile is not None else None
        start = share.mig_start if lies_in_slice(share) else None  # else it does not matter where it is
        kind = (name, share.mode, share.compute_milli, share.mig_profile, start)
        number = self._numbers.get(kind)
        if number is None:
            number = self._numbers[kind] = len(self._kinds)
            self._kinds.append((profile, replace(share, gpu_uuid="", memory_bytes=None, mig_start=start)))
        self._residents.setdefault(share.gpu_uuid, []).append((run, number))
        run.slowdowns[share.gpu_uuid] = None
        self._touched[share.gpu_uuid] = None

    def leave(self, run: Running) -> None:
        """A job is gone from all of its shared GPUs; its work so far must have been settled."""
        if not run.slowdowns:
            return
        for gpu_uuid in run.slowdowns:
            self._residents[gpu_uuid] = [entry for entry in self._residents[gpu_uuid] if entry[0] is not run]
            self._touched[gpu_uuid] = None
        run.slowdowns.clear()

    @property
    def disturbed(self) -> bool:
        """Whether anybody came or went since the last look at :meth:`changed`."""
        return bool(self._touched)

    def changed(self) -> dict[Running, dict[str, float | None]]:
        """Jobs that are slowed differently since the last call, with the new slowdown by GPU."""
        changes: dict[Running, dict[str, float | None]] = {}
        for gpu_uuid in self._touched:
            for run, slowdown in self._slowdowns(gpu_uuid).items():
                if run.slowdowns[gpu_uuid] != slowdown:
                    changes.setdefault(run, {})[gpu_uuid] = slowdown
        self._touched.clear()
        return changes

    def _slowdowns(self, gpu_uuid: str) -> dict[Running, float | None]:
        """The slowdown of each job on this GPU, asked of the model once per set of residents."""
        residents = self._residents[gpu_uuid]
        ordered = sorted(residents, key=_kind)
        model = self._gpu_models[gpu_uuid]
        key = (model, tuple(number for _, number in ordered))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._ask(model, [self._kinds[number] for number in key[1]])
        if len(residents) == 1 and known[0] is None:
            # Nobody else is there: whatever the model does not know, it is not interference.
            return {residents[0][0]: 1.0}
        slowdowns: dict[Running, float | None] = {}
        for (run, _), slowdown in zip(ordered, known, strict=True):
            slowdowns[run] = _worse(slowdowns[run], slowdown) if run in slowdowns else slowdown
        return slowdowns

    def _ask(self, model: str, kinds: list[tuple[Profile | None, Share]]) -> tuple[float | None, ...]:
        """The slowdown of each of these: measured in its slice, or else by the truth model."""
        measured = [measured_alone(model, each) for each in kinds]
        predictions = predictions_of(self._truth, model, kinds)
        pairs = zip(measured, predictions, strict=True)
        return tuple(prediction.slowdown if known is None else known for known, prediction in pairs)


def _kind(entry: tuple[Running, int]) -> int:
    return entry[1]


def _worse(first: float | None, second: float | None) -> float | None:
    """Of two workers of one job on the same GPU the slower counts; unknown hides the rest."""
    return None if first is None or second is None else max(first, second)
