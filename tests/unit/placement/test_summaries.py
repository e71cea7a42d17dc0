"""What rules a node out without a look at its GPUs: a summary, packed into one number."""

from __future__ import annotations

import random

import numpy as np
import pytest

from placement import columns as k
from placement.summaries import (
    _summarise,
    _summarise_plainly,
    may_hold,
    may_hold_each,
    one_kind,
    summarise,
)

KINDS = 70
"""More than a mask or a brief has bits for."""
PROFILES = 14
MODES = k.EMPTY, k.EXCLUSIVE, k.MIG, k.MPS, k.TIMESLICE

FORMS = _summarise, _summarise_plainly


def gpus_of(*gpus):
    """GPUs as (mode, kind, compute left, MIG state)."""
    table = np.zeros((len(gpus), k.GPU_COLUMNS), np.int64)
    for row, (mode, kind, free, state) in zip(table, gpus, strict=True):
        row[[k.MODE, k.MODEL, k.FREE_MILLI, k.MIG_STATE]] = mode, kind, free, state
    return table


def placeable_of():
    """By state: profiles with a start, here the bits of the state itself; the same for all kinds."""
    return np.tile(np.arange(1 << PROFILES, dtype=np.int64), (KINDS, 1))


def brief_of(gpus):
    node = np.zeros(k.NODE_COLUMNS, np.int64)
    node[k.EMPTIES] = np.count_nonzero(gpus[:, k.MODE] == k.EMPTY)
    return summarise(gpus, node, placeable_of())


def ask_of(**entries):
    ask = np.zeros(k.ASK_ENTRIES, np.int64)
    for name, value in entries.items():
        ask[getattr(k, name)] = value
    return ask


MPS, TIMESLICE, MIG, WHOLE = (1 << rank for rank in range(4))
ANY_KIND = (1 << k.BIT_LIMIT + 1) - 1

CASES = {
    # the GPUs of the node, what is asked, may it do
    "a share on an empty GPU": ([(k.EMPTY, 0, 1000, 0)], {"OFFERED": MPS, "LEAST_MPS": 1000}, True),
    "a share beside others": ([(k.MPS, 0, 300, 0)], {"OFFERED": MPS, "LEAST_MPS": 300}, True),
    "a share that is too large": ([(k.MPS, 0, 299, 0)], {"OFFERED": MPS, "LEAST_MPS": 300}, False),
    "a share in the other mode": ([(k.TIMESLICE, 0, 900, 0)], {"OFFERED": MPS, "LEAST_MPS": 1}, False),
    "a turn": ([(k.TIMESLICE, 0, 900, 0)], {"OFFERED": TIMESLICE, "LEAST_TIMESLICE": 900}, True),
    "either": (
        [(k.TIMESLICE, 0, 900, 0)],
        {"OFFERED": MPS | TIMESLICE, "LEAST_MPS": 1, "LEAST_TIMESLICE": 900},
        True,
    ),
    "a turn beside MPS": ([(k.MPS, 0, 900, 0)], {"OFFERED": TIMESLICE, "LEAST_TIMESLICE": 1}, False),
    "a slice with a start": ([(k.MIG, 0, 0, 0b100)], {"OFFERED": MIG, "PROFILES": 0b110}, True),
    "a slice without": ([(k.MIG, 0, 0, 0b001)], {"OFFERED": MIG, "PROFILES": 0b110}, False),
    "the last slices cannot be told apart": (
        [(k.MIG, 0, 0, 1 << 12)],
        {"OFFERED": MIG, "PROFILES": 1 << 13},
        True,
    ),
    "a whole GPU": ([(k.EMPTY, 0, 1000, 0)], {"OFFERED": WHOLE, "GPUS": 1}, True),
    "more GPUs than are empty": ([(k.EMPTY, 0, 1000, 0)], {"OFFERED": WHOLE, "GPUS": 2}, False),
    "all 64": ([(k.EMPTY, 0, 1000, 0)] * 64, {"OFFERED": WHOLE, "GPUS": 64}, True),
    "one more": ([(k.EMPTY, 0, 1000, 0)] * 64, {"OFFERED": WHOLE, "GPUS": 65}, False),
    "another kind": ([(k.EMPTY, 3, 1000, 0)], {"OFFERED": WHOLE, "GPUS": 1, "SERVED_BY": 1 << 4}, False),
    "the last kind of its own": (
        [(k.EMPTY, 22, 1000, 0)],
        {"OFFERED": WHOLE, "GPUS": 1, "SERVED_BY": 1 << 21},
        False,
    ),
    "the last kinds cannot be told apart": (
        [(k.EMPTY, 40, 1000, 0)],
        {"OFFERED": WHOLE, "GPUS": 1, "SERVED_BY": 1 << 30},
        True,
    ),
    "beyond all bits": (
        [(k.EMPTY, 69, 1000, 0)],
        {"OFFERED": WHOLE, "GPUS": 1, "SERVED_BY": 1 << k.BIT_LIMIT},
        True,
    ),
    "a gap in the row": ([(k.ABSENT, 0, 0, 0), (k.EMPTY, 1, 1000, 0)], {"OFFERED": WHOLE, "GPUS": 1}, True),
    "nothing that would do": ([(k.EMPTY, 0, 1000, 0)], {"OFFERED": 0}, False),
}


@pytest.mark.parametrize(("gpus", "asked", "may"), CASES.values(), ids=CASES)
def test_which_nodes_may_hold_a_request(gpus, asked, may):
    ask = ask_of(**{"GPUS": 1, "SERVED_BY": ANY_KIND, **asked})
    brief = brief_of(gpus_of(*gpus))
    assert may_hold(int(brief), ask.tolist()) is may
    assert may_hold_each(np.array([brief, 0]), ask).tolist() == [may, False]


def would_do(gpus, ask):
    """By the rule of a share, a slice or whole GPUs, kind and all, GPU by GPU."""
    served = [gpu for gpu in gpus.tolist() if ask[k.SERVED_BY] >> min(gpu[k.MODEL], k.BIT_LIMIT) & 1]
    shares = ((MPS, k.MPS, k.LEAST_MPS), (TIMESLICE, k.TIMESLICE, k.LEAST_TIMESLICE))
    for bit, mode, least in shares:
        if ask[k.OFFERED] & bit and any(
            gpu[k.MODE] in (k.EMPTY, mode) and gpu[k.FREE_MILLI] >= ask[least] for gpu in served
        ):
            return True
    if ask[k.OFFERED] & MIG and any(
        gpu[k.MODE] in (k.EMPTY, k.MIG) and gpu[k.MIG_STATE] & ask[k.PROFILES] for gpu in served
    ):
        return True
    return bool(ask[k.OFFERED] & WHOLE) and sum(gpu[k.MODE] == k.EMPTY for gpu in served) >= ask[k.GPUS]


@pytest.mark.parametrize("seed", range(5))
def test_no_node_is_ruled_out_that_would_do(seed):
    draw, told = random.Random(seed), [0, 0]
    for _ in range(400):
        kinds = draw.sample(range(KINDS), 3)
        gpus = gpus_of(
            *(
                (
                    draw.choice((k.EMPTY, k.EXCLUSIVE, k.MIG, k.MPS, k.TIMESLICE)),
                    draw.choice(kinds),
                    free,
                    state,
                )
                for free, state in [(draw.randrange(1001), draw.randrange(1 << PROFILES)) for _ in range(4)]
            )
        )
        ask = ask_of(
            GPUS=draw.randint(1, 3),
            OFFERED=draw.randrange(16),
            SERVED_BY=1 << min(draw.choice(kinds), k.BIT_LIMIT) | draw.getrandbits(30),
            LEAST_MPS=draw.randrange(1001),
            LEAST_TIMESLICE=draw.randrange(1001),
            PROFILES=1 << draw.randrange(PROFILES),
        )
        brief = int(brief_of(gpus))
        may = may_hold(brief, ask.tolist())
        assert may_hold_each(np.array([brief]), ask).tolist() == [may]
        assert may or not would_do(gpus, ask.tolist())
        told[may] += 1
    assert min(told) > 50  # both happen


@pytest.mark.parametrize(
    ("models", "one"), [(0b1, True), (0b100, True), (0b101, False), (1 << k.BIT_LIMIT, False)]
)
def test_whether_all_gpus_of_a_node_are_of_one_kind(models, one):
    assert one_kind(models) is one


@pytest.mark.parametrize("seed", range(40))
def test_a_summary_is_the_same_with_the_compiler_and_without_it(seed):
    draw = random.Random(seed)
    gpus = gpus_of(
        *(
            (
                draw.choice((*MODES, k.ABSENT)),
                draw.choice((0, 1, KINDS - 1)),
                draw.randrange(1001),
                draw.randrange(16),
            )
            for _ in range(8)
        )
    )
    nodes = np.zeros((2, k.NODE_COLUMNS), np.int64)
    nodes[:, k.EMPTIES] = np.count_nonzero(gpus[:, k.MODE] == k.EMPTY)
    briefs = [form(gpus, node, placeable_of()) for form, node in zip(FORMS, nodes, strict=True)]
    assert briefs[0] == briefs[1]
    assert nodes[0].tolist() == nodes[1].tolist()
