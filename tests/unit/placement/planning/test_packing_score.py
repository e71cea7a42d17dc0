"""Packing scores and the rules of pairs as tables."""

from __future__ import annotations

import csv
import dataclasses
import os
from pathlib import Path

import pytest

from placement.interference import Resident
from placement.interference.additive import AdditiveInterference
from placement.model import Mode, Profile
from placement.planning.packing_score import (
    SCORE_LIMITS,
    SPEED_BANDS,
    Counters,
    PackingJob,
    PackingRules,
    PairRefusal,
    counters_of,
    packing_score,
    why_not_pair,
)

DATA = Path(os.environ.get("COTENANT_DATA") or Path(__file__).parents[5] / "shared" / "data")
GIB = 1 << 30


@pytest.mark.parametrize(
    ("sm", "dram", "memory", "mixed", "score"),
    [
        (0, 0, 0, False, 0),
        (150, 150, 500, False, 0),
        (151, 150, 500, False, 1),
        (150, 151, 500, False, 1),
        (150, 150, 501, False, 1),
        (150, 150, None, False, 0),
        (600, 350, 1000, False, 1),
        (601, 350, 1000, False, 2),
        (600, 351, 1000, False, 2),
        (1000, 1000, 1000, False, 2),
        (187, 150, 500, True, 0),
        (188, 150, 500, True, 1),
        (750, 350, 500, True, 1),
        (751, 350, 500, True, 2),
        (None, 0, 0, False, None),
        (0, None, 0, False, None),
    ],
)
def test_a_score_follows_from_what_a_job_uses(sm, dram, memory, mixed, score):
    assert packing_score(Counters(sm, dram, memory, mixed)) == score


def speed_beside_the_usual_partner(sm: int, dram: int) -> float:
    job, partner = Profile("job", sm_milli=sm, dram_milli=dram), Profile("p", sm_milli=500, dram_milli=300)
    residents = (Resident(job, Mode.MPS, 1000), Resident(partner, Mode.MPS, 1000))
    return 1 / AdditiveInterference().predict("A100-SXM4-80GB", residents)[0].slowdown


def test_the_limits_keep_their_bands_by_the_additive_model():
    for limit, least in zip(SCORE_LIMITS, SPEED_BANDS, strict=True):
        assert speed_beside_the_usual_partner(limit.sm_milli, limit.dram_milli) >= least
        assert speed_beside_the_usual_partner(limit.sm_milli + 50, limit.dram_milli) < least


@pytest.mark.skipif(not (DATA / "miso").is_dir(), reason="needs miso under COTENANT_DATA")
def test_measured_jobs_spread_over_the_scores():
    with (DATA / "miso" / "solo_utilisation.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    scores = {
        (row["model"], row["batch_size"]): packing_score(
            Counters(round(float(row["util_sm_pct"]) * 10), round(float(row["util_mem_pct"]) * 10))
        )
        for row in rows
    }
    assert scores["embedding", "64"] == scores["gnn", "128"] == scores["resnet", "64"] == 1
    assert scores["bert", "8"] == scores["transformer", "128"] == scores["deepspeech2", "8"] == 2


def test_counters_of_a_profile():
    profile = Profile("p", sm_milli=300, dram_milli=200, memory_bytes=10 * GIB + 1)
    assert counters_of(profile, 40 * GIB) == Counters(300, 200, 251)
    assert counters_of(profile, None, mixed_precision=True) == Counters(300, 200, None, True)
    assert counters_of(Profile("unknown"), 40 * GIB) == Counters(None, None, None)


JOB = PackingJob(gpus=1, score=1, memory_bytes=10 * GIB, rank=100.0)


def like(**changes: object) -> PackingJob:
    return dataclasses.replace(JOB, **changes)


@pytest.mark.parametrize(
    ("newcomer", "running", "rules", "refusal"),
    [
        (JOB, [], PackingRules(on=False), None),
        (JOB, [JOB], PackingRules(), None),
        (JOB, [JOB], PackingRules(on=False), PairRefusal.PACKING_OFF),
        (JOB, [JOB, JOB], PackingRules(), PairRefusal.NOT_ALONE),
        (like(score=0), [like(score=2)], PackingRules(), None),
        (JOB, [like(score=2)], PackingRules(), PairRefusal.SCORES),
        (JOB, [JOB], PackingRules(score_sum=1), PairRefusal.SCORES),
        (like(score=None), [JOB], PackingRules(), PairRefusal.UNKNOWN),
        (JOB, [like(score=None)], PackingRules(), PairRefusal.UNKNOWN),
        (like(gpus=2), [JOB], PackingRules(), PairRefusal.UNLIKE_GPUS),
        (like(gpus=8), [like(gpus=8)], PackingRules(), None),
        (like(gpus=9), [like(gpus=9)], PackingRules(), PairRefusal.TOO_MANY_GPUS),
        (like(memory_bytes=30 * GIB), [JOB], PackingRules(), None),
        (like(memory_bytes=30 * GIB + 1), [JOB], PackingRules(), PairRefusal.MEMORY),
        (like(memory_bytes=None), [JOB], PackingRules(), PairRefusal.UNKNOWN),
        (like(rank=200.0), [JOB], PackingRules(), None),
        (like(rank=200.1), [JOB], PackingRules(), PairRefusal.PRIORITY),
        (like(rank=None), [like(rank=0.0)], PackingRules(), None),
        (like(rank=900.0, score=2, gpus=9), [like(gpus=8)], PackingRules(), PairRefusal.UNLIKE_GPUS),
    ],
)
def test_who_may_join_whom(newcomer, running, rules, refusal):
    assert why_not_pair(newcomer, running, 40 * GIB, rules) is refusal


def test_unknown_gpu_memory_constrains_nothing():
    assert why_not_pair(like(memory_bytes=None), [like(memory_bytes=999 * GIB)], None) is None
