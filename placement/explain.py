"""Why a job waits, and what was foreseen for one that was placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from placement import columns as k
from placement.ask import Ask, Demand
from placement.cluster import Cluster
from placement.columns import Ints
from placement.figures import UNLIMITED
from placement.forecasts import present
from placement.interference import InterferenceModel
from placement.lifecycle import JobRecord, JobState
from placement.model import (
    Devices,
    Explanation,
    Job,
    Level,
    Mode,
    Outcome,
    Reason,
    Request,
    format_bytes,
    model_matches,
)
from placement.partition import MODE_ORDER, mps_max_clients, possible_modes
from placement.policies import Placement
from placement.search import Search

_CODES = tuple(Reason)
_FITS = -1
_CODE = {reason: i for i, reason in enumerate(_CODES)}


def explain_placed(cluster: Cluster, belief: InterferenceModel, record: JobRecord) -> Explanation:
    """What is foreseen for a job that holds shares, or was foreseen for one that held some."""
    slowdown, upper = record.predicted_slowdown, record.predicted_upper
    if record.assignments:
        slowdown, upper = present(cluster, belief, record)
    return Explanation(
        record.job.job_id,
        _outcome_of(record),
        record.ruled_out,
        record.candidates,
        predicted_slowdown=slowdown,
        predicted_upper=upper,
        note=record.failure,
    )


def _outcome_of(record: JobRecord) -> Outcome:
    """How its latest place was found; records of earlier versions do not know."""
    if record.outcome is not None:
        return record.outcome
    if record.state is JobState.PLACED:
        return Outcome.PREEMPT
    return Outcome.NO_FIT if record.first_placed_s is None else Outcome.FIT


def explain_waiting(search: Search, demand: Demand, job: Job, ahead: int) -> Explanation:
    """What rules out each GPU for a waiting job; ``ahead`` counts those before it where order is strict."""
    cluster = search.cluster
    if not cluster.members:
        return Explanation(job.job_id, Outcome.NO_FIT, {Reason.NO_NODES: 1})
    reasons, candidates = _counted(search, demand)
    fits = search.most_workers(demand, job)
    if fits >= job.workers and ahead:
        return Explanation(
            job.job_id,
            Outcome.FIT,
            {**reasons, Reason.ORDER: ahead},
            candidates,
            note=f"{ahead} ahead in line",
        )
    where = ""
    if job.workers > 1 and fits < job.workers:
        reason, where = _of_gang(search, demand, job)
        reasons = {**reasons, reason: job.workers - fits}
    note = f"{fits} of {job.workers} workers fit{where}"
    if Reason.OWN_PROMISE in reasons and demand.profile is None:
        note += "; without a profile, nobody can promise how slow it will be on a GPU that is shared"
    return Explanation(job.job_id, Outcome.NO_FIT, reasons, candidates, note=note)


def _of_gang(search: Search, demand: Demand, job: Job) -> tuple[Reason, str]:
    """Whether a gang lacks room at all or only together, and where it wanted to be."""
    wish = job.request.together
    if wish is None or not wish.required:
        return Reason.GANG, ""
    free = replace(job, request=replace(job.request, together=None))
    apart = search.most_workers(replace(demand, request=free.request, ask=None), free)
    return Reason.TOGETHER if apart >= job.workers else Reason.GANG, f" {_WHERE[wish.level]}"


_WHERE = {
    Level.NODE: "on one node",
    Level.NVLINK: "in one NVLink domain",
    Level.RACK: "in one rack",
    Level.GPU_TYPE: "on GPUs of one type",
}


def rejection(search: Search, demand: Demand, job: Job) -> str:
    """One line that says why a job cannot be held."""
    explanation = explain_waiting(search, demand, job, 0)
    counted = ", ".join(
        f"{reason.value} ({count})"
        for reason, count in sorted(explanation.reasons.items(), key=lambda item: -item[1])
    )
    largest = max((gpu.memory_bytes or 0 for node in search.cluster.members for gpu in node.gpus), default=0)
    asked = job.request.memory_bytes
    beyond = (
        f"; asked {format_bytes(asked)} a GPU, the largest has {format_bytes(largest)}"
        if asked and asked > largest > 0
        else ""
    )
    return (
        f"{Reason.TOO_LARGE.value if not job.immediate else 'no room'}: {counted or explanation.note}{beyond}"
    )


_GIVES = {
    Mode.EXCLUSIVE: "whole GPUs",
    Mode.MIG: "MIG slices",
    Mode.MPS: "MPS shares",
    Mode.TIMESLICE: "time slices",
}


def unserved(placement: Placement, request: Request) -> str:
    """Why a placement never gives what a request accepts, empty if it may."""
    possible = possible_modes(request)
    if not request.gpus or possible & placement.modes:
        return ""
    gives = " and ".join(_GIVES[mode] for mode in MODE_ORDER if mode in placement.modes)
    modes = ", ".join(mode.value for mode in MODE_ORDER if mode in possible)
    same = request.devices is Devices.SAME
    allowed = [m.value for m in MODE_ORDER if m in placement.modes and not (same and m is Mode.EXCLUSIVE)]
    advice = (
        f"ask for mode {' or '.join(allowed)}, or use another policy" if allowed else "use another policy"
    )
    one_gpu = " (devices: same wants shares of one GPU)" if same else ""
    return f"policy {placement.name} gives {gives} only, and the job can use {modes} alone{one_gpu}: {advice}"


def ruled_out(search: Search, demand: Demand) -> dict[Reason, int]:
    """How many GPUs cannot hold a worker now, by why."""
    return dict(_counted(search, demand)[0])


def _counted(search: Search, demand: Demand) -> tuple[Mapping[Reason, int], int]:
    """Reasons over all GPUs (over nodes for a request without GPUs), and how many GPUs fit."""
    cluster = search.cluster
    ask = search.ask_of(demand)
    node_code = _node_codes(cluster, demand)
    if demand.request.gpus == 0:
        return _tally(node_code), int((node_code == _FITS).sum())
    there = cluster.gpus[:, :, k.MODE] != k.ABSENT
    rows = np.nonzero(there)[0]
    gpus = cluster.gpus[there]
    if not len(gpus):
        return {Reason.NODE_GPUS: len(cluster.members)}, 0
    code = _kind_codes(cluster, demand, ask)[gpus[:, k.MODEL]]
    if ask.ranks:
        by_ask = [_with_company(_gpu_codes(search, demand, rank, gpus), rows, demand) for rank in ask.ranks]
        best = by_ask[0]
        for other in by_ask[1:]:
            best = np.where(other == _FITS, _FITS, best)
        code = np.where(code == _FITS, best, code)
    code = np.where(node_code[rows] == _FITS, code, node_code[rows])
    return _tally(code), int((code == _FITS).sum())


def _with_company(code: Ints, rows: Ints, demand: Demand) -> Ints:
    """The same codes, where a GPU that fits alone is no place: its node has too few such GPUs."""
    enough = np.bincount(rows[code == _FITS], minlength=rows.max(initial=0) + 1) >= demand.request.gpus_apart
    return np.where((code == _FITS) & ~enough[rows], _CODE[Reason.NODE_GPUS], code)


def _tally(codes: Ints) -> Mapping[Reason, int]:
    counts = Counter(codes[codes != _FITS].tolist())
    return {_CODES[code]: count for code, count in sorted(counts.items())}


def _node_codes(cluster: Cluster, demand: Demand) -> Ints:
    nodes, request = cluster.nodes, demand.request
    code = np.full(len(nodes), _FITS, np.int64)
    code[nodes[:, k.RAM_FREE] < request.ram_bytes] = _CODE[Reason.NODE_RAM]
    code[nodes[:, k.CPU_FREE] < request.cpu_milli] = _CODE[Reason.NODE_CPU]
    code[nodes[:, k.UP] == 0] = _CODE[Reason.NODE_UNAVAILABLE]
    return code


def _kind_codes(cluster: Cluster, demand: Demand, ask: Ask) -> Ints:
    """What rules out a whole kind of GPU, whatever is on it."""
    request = demand.request
    memory = request.memory_bytes
    if memory is None and demand.profile is not None:
        memory = demand.profile.memory_bytes
    code = np.full(len(cluster.kinds), _FITS, np.int64)
    for kind, (model, memory_bytes) in enumerate(cluster.kinds):
        if request.gpu_models and not any(model_matches(selector, model) for selector in request.gpu_models):
            code[kind] = _CODE[Reason.GPU_MODEL]
        elif (
            memory is not None and memory_bytes is not None and memory * request.shares_per_gpu > memory_bytes
        ):
            code[kind] = _CODE[Reason.GPU_MEMORY]
        elif not ask.terms[:, kind, k.MILLI].any():
            code[kind] = _CODE[_unserved(request, model)]
    return code


def _unserved(request: Request, gpu_model: str) -> Reason:
    """Why a kind of GPU serves a request in no mode, though its model and memory would do."""
    modes = possible_modes(request)
    shared = modes & {Mode.MPS, Mode.TIMESLICE}
    if request.devices is Devices.SAME and shared:
        # What compute is stated is no more than a GPU has: the request would have been refused.
        clients = shared == {Mode.MPS} and request.shares_per_gpu > mps_max_clients(gpu_model)
        return Reason.MPS_CLIENTS if clients and request.compute_milli is not None else Reason.GPU_COMPUTE
    return Reason.MIG_GEOMETRY if Mode.MIG in modes else Reason.GPU_MODE


def _gpu_codes(search: Search, demand: Demand, rank: int, gpus: Ints) -> Ints:
    """What rules out each GPU for one mode, the most basic reason last so that it stands."""
    ask = search.ask_of(demand)
    term = ask.terms[rank][gpus[:, k.MODEL]]
    code = np.full(len(gpus), _FITS, np.int64)
    for number in np.unique(gpus[:, k.NEIGHBOURHOOD]).tolist():
        broken = search.objection(ask, rank, number)
        if broken is not None:
            code[gpus[:, k.NEIGHBOURHOOD] == number] = _CODE[broken]
    if rank in (k.MPS_RANK, k.TIMESLICE_RANK):
        _share_codes(code, gpus, term, (demand.number, bool(ask.entries[k.ISOLATING])))
    if k.MODE_RANK[rank] == k.MIG_RANK:
        after = search.mig_after[gpus[:, k.MODEL], gpus[:, k.MIG_STATE], term[:, k.PROFILE]]
        code[after < 0] = _CODE[Reason.MIG_GEOMETRY]
    busy = gpus[:, k.MODE] != k.EMPTY
    if rank == k.EXCLUSIVE_RANK:
        code[busy] = _CODE[Reason.GPU_BUSY]
    else:
        code[busy & (gpus[:, k.MODE] != k.MODE_OF_RANK[rank])] = _CODE[Reason.GPU_MODE]
        code[gpus[:, k.MODE] == k.EXCLUSIVE] = _CODE[Reason.GPU_BUSY]
    code[term[:, k.MILLI] == 0] = _CODE[Reason.GPU_MODE]
    return code


def _share_codes(code: Ints, gpus: Ints, term: Ints, who: tuple[int, bool]) -> None:
    """What rules out a share beside those who are there; ``who`` asks, and whether it isolates."""
    asker, isolating = who
    tenant = gpus[:, k.TENANT]
    stranger = (tenant != k.NOBODY) & (tenant != asker)
    code[stranger & ((gpus[:, k.ISOLATED] == 1) | isolating)] = _CODE[Reason.ISOLATION]
    code[gpus[:, k.CLIENTS] >= np.maximum(term[:, k.CLIENT_LIMIT], 1)] = _CODE[Reason.MPS_CLIENTS]
    code[gpus[:, k.FREE_MEMORY] < np.minimum(term[:, k.MEMORY], UNLIMITED)] = _CODE[Reason.GPU_MEMORY]
    code[gpus[:, k.FREE_MILLI] < term[:, k.MILLI]] = _CODE[Reason.GPU_COMPUTE]
