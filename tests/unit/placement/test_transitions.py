"""Changes of mode as tables: from and to on the left, price or refusal on the right; what is worth it."""

from __future__ import annotations

import dataclasses
import itertools
import math

import pytest

from placement.model import InvalidAmount, Job, Mode, Reason, Request
from placement.partition import (
    Change,
    Instance,
    Price,
    Prospect,
    Setup,
    TransitionCosts,
    mig_mode_resets,
    net_gain,
    repartition,
    transition,
    worth,
)

A100, A30, H100, V100 = "A100-SXM4-80GB", "A30-24GB", "H100-SXM5-80GB", "V100-SXM2-32GB"
PLAIN, ALONE, MIG, MPS, TS = None, Mode.EXCLUSIVE, Mode.MIG, Mode.MPS, Mode.TIMESLICE

# Each step a power of ten: the digits of a price say which steps it has.
STEPS = TransitionCosts(
    drain_s=7,
    restore_s=0,
    reset_s=100_000,
    mig_mode_s=10_000,
    destroy_s=1_000,
    create_s=100,
    mps_start_s=10,
    mps_stop_s=1,
)

FREE = 0
MODES = [PLAIN, ALONE, TS, MPS, MIG]
# Reconfiguration of a whole GPU with one MIG instance: a row per mode now, a column per mode wanted.
ON_HOPPER = [
    # plain, alone, time slices, MPS, MIG
    [FREE, FREE, FREE, 10, 10_100],
    [FREE, FREE, FREE, 10, 10_100],
    [FREE, FREE, FREE, 10, 10_100],
    [1, 1, 1, FREE, 10_101],
    [11_000, 11_000, 11_000, 11_010, FREE],
]
ON_AMPERE = [
    [FREE, FREE, FREE, 10, 110_100],
    [FREE, FREE, FREE, 10, 110_100],
    [FREE, FREE, FREE, 10, 110_100],
    [1, 1, 1, FREE, 110_101],
    [111_000, 111_000, 111_000, 111_010, FREE],
]
NO_MIG = Reason.GPU_MODEL
ON_VOLTA = [
    [FREE, FREE, FREE, 10, NO_MIG],
    [FREE, FREE, FREE, 10, NO_MIG],
    [FREE, FREE, FREE, 10, NO_MIG],
    [1, 1, 1, FREE, NO_MIG],
    [NO_MIG, NO_MIG, NO_MIG, NO_MIG, FREE],
]
NOT_HERE = Reason.GPU_MODE
IN_A_SLICE = [
    [FREE, NOT_HERE, FREE, 10, FREE],
    [NOT_HERE, FREE, NOT_HERE, NOT_HERE, NOT_HERE],
    [FREE, NOT_HERE, FREE, 10, FREE],
    [1, NOT_HERE, 1, FREE, 1],
    [FREE, NOT_HERE, FREE, 10, FREE],
]
EMPTY_GPUS = [
    *((Setup(H100, mode, instances=1), row) for mode, row in zip(MODES, ON_HOPPER, strict=True)),
    *((Setup(A100, mode, instances=1), row) for mode, row in zip(MODES, ON_AMPERE, strict=True)),
    *((Setup(A30, mode, instances=1), row) for mode, row in zip(MODES, ON_AMPERE, strict=True)),
    *((Setup(V100, mode, instances=1), row) for mode, row in zip(MODES, ON_VOLTA, strict=True)),
    *((Setup(A100, mode, in_slice=True), row) for mode, row in zip(MODES, IN_A_SLICE, strict=True)),
]
TABLE = [(setup, to, cell) for setup, row in EMPTY_GPUS for to, cell in zip(MODES, row, strict=True)]


@pytest.mark.parametrize(("setup", "to", "expected"), TABLE)
def test_what_a_change_of_mode_takes_on_an_empty_gpu(setup, to, expected):
    price = expected if isinstance(expected, Reason) else Price(0, expected, 0)
    assert transition(setup, to, STEPS) == price


@pytest.mark.parametrize(("setup", "to", "expected"), TABLE)
def test_whoever_is_there_leaves_unless_the_mode_stays(setup, to, expected):
    price = transition(dataclasses.replace(setup, residents=3), to, STEPS)
    if isinstance(expected, Reason):
        assert price is expected
    elif to is setup.mode:
        assert price == Price()
    else:
        assert price == Price(7, expected, 3)


@pytest.mark.parametrize(("setup", "to", "expected"), TABLE)
def test_who_cannot_be_moved_keeps_the_mode(setup, to, expected):
    price = transition(dataclasses.replace(setup, residents=3, settled=True), to, STEPS)
    if to is setup.mode:
        assert price == Price()
    else:
        assert price is (expected if isinstance(expected, Reason) else Reason.GPU_BUSY)


@pytest.mark.parametrize("model", [A100, A30, H100])
@pytest.mark.parametrize(("mode", "to"), [*itertools.permutations(MODES, 2)])
def test_where_no_reset_is_possible_only_the_mig_mode_of_ampere_stays(model, mode, to):
    setup = Setup(model, mode, instances=1)
    price = transition(dataclasses.replace(setup, can_reset=False), to, STEPS)
    if MIG in (mode, to) and model != H100:
        assert price is Reason.GPU_MODE
    else:
        assert price == transition(setup, to, STEPS)


def test_mig_without_instances_has_none_to_destroy():
    assert transition(Setup(H100, MIG, instances=0), ALONE, STEPS) == Price(0, 10_000, 0)


@pytest.mark.parametrize(
    ("model", "resets"),
    [
        (A100, True),
        ("A100-PCIE-40GB", True),
        (A30, True),
        (H100, False),
        ("GH200-96GB", False),
        ("H200-SXM5-141GB", False),
        ("B200-180GB", False),
        (V100, False),
        ("nobody knows", False),
    ],
)
def test_which_gpus_the_mig_mode_resets(model, resets):
    assert mig_mode_resets(model) is resets


SMALL, LARGE = Instance("1g.10gb", 0), Instance("3g.40gb", 4)


@pytest.mark.parametrize(
    ("change", "price"),
    [
        (Change(), Price()),
        (Change(created=(SMALL,)), Price(0, 100, 0)),
        (Change(created=(SMALL, LARGE)), Price(0, 100, 0)),
        (Change(destroyed=(LARGE,)), Price(0, 1_000, 0)),
        (Change(destroyed=(LARGE,), created=(SMALL,)), Price(0, 1_100, 0)),
        (Change(destroyed=(LARGE,), created=(SMALL,), moved=2), Price(7, 1_100, 2)),
        (Change(reused=(SMALL,)), Price()),
        (Change(reused=(SMALL,), moved=1), Price(7, 0, 1)),
    ],
)
def test_what_a_change_of_instances_takes(change, price):
    assert repartition(change, STEPS) == price


def test_the_delay_is_drain_and_reconfiguration():
    assert Price(2, 30, 4).delay_s == 32


def test_without_measurements_a_change_of_instances_costs_what_miso_reports():
    costs = TransitionCosts()
    price = repartition(Change(destroyed=(LARGE,), created=(SMALL,), moved=1))
    assert price.reconfigure_s == 4
    assert price.delay_s + costs.restore_s == 30
    assert costs.drain_s == Job("j", Request(), 0.0, 0).grace_s


# One job is moved, the GPU is ready after 10 s; a moved job is as far as it was 20 s after that.
TEN = Price(6, 4, 1)
COSTS = TransitionCosts(restore_s=20)


@pytest.mark.parametrize(
    ("price", "prospect", "net"),
    [
        # nobody is moved: all that counts is that it lasts longer than it takes
        (TEN, Prospect(gain_gpus=0.5, horizon_s=11), 0.5),
        (TEN, Prospect(gain_gpus=0.5, horizon_s=10), 0),
        (TEN, Prospect(gain_gpus=0.5, horizon_s=3), 0),
        (Price(), Prospect(gain_gpus=0.5, horizon_s=2), 1),
        # who is moved loses 10 s and 20 s at the speed that it has now, and repeats what it had not saved
        (TEN, Prospect(gain_gpus=0.5, horizon_s=110, held_gpus=1), 50 - 30),
        (TEN, Prospect(gain_gpus=0.5, horizon_s=70, held_gpus=1), 0),
        (TEN, Prospect(gain_gpus=0.5, horizon_s=69, held_gpus=1), -0.5),
        (TEN, Prospect(gain_gpus=0.5, horizon_s=110, held_gpus=1, redo_s=60), 50 - 90),
        (TEN, Prospect(gain_gpus=0.5, horizon_s=5, held_gpus=1), -30),
        # no gain, or a loss, is never worth anything
        (TEN, Prospect(gain_gpus=0, horizon_s=1e9), 0),
        (TEN, Prospect(gain_gpus=0, horizon_s=math.inf), 0),
        (TEN, Prospect(gain_gpus=-1, horizon_s=20), -10),
        (TEN, Prospect(gain_gpus=0.001, horizon_s=math.inf, held_gpus=8), math.inf),
    ],
)
def test_a_change_is_worth_it_if_it_gains_more_than_the_residents_lose(price, prospect, net):
    assert net_gain(price, prospect, COSTS) == pytest.approx(net)
    assert worth(price, prospect, COSTS) is (net > 0)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(TransitionCosts)])
def test_a_time_that_cannot_be_is_refused(field, value):
    with pytest.raises(InvalidAmount, match=field):
        TransitionCosts(**{field: value})
