"""Interference models: what neighbours do to each other, and to whom it cannot be foreseen."""

from __future__ import annotations

import itertools

import pytest

from placement.interference import (
    ALONE,
    MODELS,
    UNKNOWN,
    AdditiveCoefficients,
    AdditiveInterference,
    NoInterference,
    Prediction,
    Resident,
    model_named,
    predictions_of,
)
from placement.model import Mode, Profile, Share, UnknownName

GPU = "A100-SXM4-80GB"
LIGHT = Profile("light", sm_milli=200, dram_milli=100)
HEAVY = Profile("heavy", sm_milli=900, dram_milli=700)
PLAIN = Profile("plain", sm_milli=500)
VAGUE = Profile("vague", dram_milli=500)
SATURATING = Profile("yolos", sm_milli=1000)


def of(mode: Mode, profile: Profile | None, compute_milli: int = 500) -> Resident:
    return Resident(profile, mode, compute_milli)


def mps(profile: Profile | None, compute_milli: int = 500) -> Resident:
    return of(Mode.MPS, profile, compute_milli)


def turn(profile: Profile | None, compute_milli: int = 500) -> Resident:
    return of(Mode.TIMESLICE, profile, compute_milli)


def cut(profile: Profile | None, compute_milli: int = 428) -> Resident:
    return of(Mode.MIG, profile, compute_milli)


# residents -> slowdown of the first, worked out by hand from the formula in the docstring of the model
BY_HAND = {
    "alone in a large enough MPS share": ([mps(PLAIN)], 1.0),
    "alone in a share of half of what it uses": ([mps(HEAVY, 450)], 2.0),
    "alone in a time slice": ([turn(HEAVY, 100)], 1.0),
    "alone in a large enough MIG slice": ([cut(LIGHT)], 1.0),
    "alone in a MIG slice that is too small": ([cut(PLAIN, 250)], 2.0),
    "MPS, SMs only": ([mps(PLAIN), mps(PLAIN)], 1 + 0.46 * 0.5 * 0.5),
    "MPS, a neighbour uses at most its share": ([mps(PLAIN), mps(SATURATING, 300)], 1 + 0.46 * 0.5 * 0.3),
    "MPS, SMs and DRAM": ([mps(LIGHT), mps(HEAVY, 900)], 1 + 0.46 * 0.2 * 0.9 + 0.35 * 0.1 * 0.7),
    "MPS, two neighbours": ([mps(PLAIN), mps(PLAIN), mps(PLAIN, 250)], 1 + 0.46 * 0.5 * (0.5 + 0.25)),
    "MPS, in too small a share": ([mps(PLAIN, 250), mps(PLAIN)], (1 + 0.46 * 0.5 * 0.5) * 2),
    "time slices: the neighbour's busy time": ([turn(LIGHT), turn(HEAVY)], 1 + 1.12 * 0.9),
    "time slices: whatever one uses oneself": ([turn(HEAVY), turn(LIGHT)], 1 + 1.12 * 0.2),
    "MIG slices are apart": ([cut(LIGHT), cut(HEAVY), cut(None)], 1.0),
}
# residents -> whether each can be foreseen
UNKNOWNS = {
    "alone on a whole GPU, no profile": ([mps(None, 1000)], [True]),
    "alone on a whole GPU, vague profile": ([turn(VAGUE, 1000)], [True]),
    "alone in a share, no profile": ([mps(None)], [False]),
    "alone in a share, vague profile": ([mps(VAGUE)], [False]),
    "alone in a slice, no profile": ([cut(None)], [False]),
    "one stranger makes all unknown": ([mps(PLAIN), mps(None), mps(LIGHT)], [False] * 3),
    "a vague one too": ([turn(PLAIN), turn(VAGUE)], [False, False]),
    "but not beyond a slice": ([cut(PLAIN), cut(None), cut(VAGUE)], [True, False, False]),
}


@pytest.mark.parametrize(("residents", "slowdown"), BY_HAND.values(), ids=BY_HAND)
def test_the_additive_model_by_hand(residents, slowdown):
    first = AdditiveInterference().predict(GPU, tuple(residents))[0]
    assert first.slowdown == pytest.approx(slowdown, abs=1e-12)
    assert first.upper == pytest.approx(1 + (slowdown - 1) * 1.1, abs=1e-12)


@pytest.mark.parametrize(("residents", "known"), UNKNOWNS.values(), ids=UNKNOWNS)
def test_who_cannot_be_foreseen(residents, known):
    predictions = AdditiveInterference().predict(GPU, tuple(residents))
    assert [prediction != UNKNOWN for prediction in predictions] == known
    assert all((p.slowdown is None) == (p.upper is None) for p in predictions)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("profile", [None, VAGUE, LIGHT, SATURATING])
def test_alone_on_a_whole_gpu_is_exactly_one(model, mode, profile):
    assert model_named(model).predict(GPU, (of(mode, profile, 1000),)) == (ALONE,)
    assert Prediction(1.0, 1.0) == ALONE


CROWDS = [
    [mps(LIGHT, 200), mps(HEAVY, 500), mps(PLAIN, 300)],
    [turn(LIGHT, 100), turn(HEAVY, 500), turn(PLAIN, 250), turn(SATURATING, 150)],
    [cut(LIGHT, 142), cut(HEAVY, 428), cut(None, 428)],
    [mps(LIGHT, 200), mps(None, 500), mps(PLAIN, 300)],
]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("crowd", CROWDS)
def test_the_order_of_residents_does_not_matter(model, crowd):
    belief = model_named(model)
    expected = belief.predict(GPU, tuple(crowd))
    for order in itertools.permutations(range(len(crowd))):
        predictions = belief.predict(GPU, tuple(crowd[i] for i in order))
        for i, prediction in zip(order, predictions, strict=True):
            assert (prediction.slowdown is None) == (expected[i].slowdown is None)
            if prediction.slowdown is not None:
                assert prediction.slowdown == pytest.approx(expected[i].slowdown, abs=1e-12)
                assert prediction.upper == pytest.approx(expected[i].upper, abs=1e-12)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("share", [mps, turn, cut])
@pytest.mark.parametrize("newcomer", [LIGHT, PLAIN, HEAVY, SATURATING])
def test_one_more_neighbour_never_makes_anyone_faster(model, share, newcomer):
    belief, residents = model_named(model), [share(LIGHT, 250), share(HEAVY, 250)]
    before = [belief.predict(GPU, tuple(residents))]
    for _ in range(3):
        residents.append(share(newcomer, 250))
        before.append(belief.predict(GPU, tuple(residents)))
    for fewer, more in itertools.pairwise(before):
        assert all(a.slowdown <= b.slowdown and a.upper <= b.upper for a, b in zip(fewer, more, strict=False))
        assert all(1 <= p.slowdown <= p.upper for p in more)


@pytest.mark.parametrize(
    ("mode", "pods", "measured"),
    [
        (Mode.TIMESLICE, 3, 3.33),
        (Mode.TIMESLICE, 5, 5.55),
        (Mode.TIMESLICE, 7, 7.77),
        (Mode.MPS, 3, 1.86),
        (Mode.MPS, 5, 2.74),
        (Mode.MPS, 7, 3.64),
    ],
)
def test_the_one_public_table_of_all_mechanisms_within_ten_percent(mode, pods, measured):
    pod = Resident(SATURATING, mode, 1000)
    for prediction in AdditiveInterference().predict(GPU, (pod,) * pods):
        assert prediction.slowdown == pytest.approx(measured, rel=0.10)


def test_the_coefficients_are_the_callers():
    model = AdditiveInterference(AdditiveCoefficients(timeslice_turn=2.0, margin=0.5))
    assert model.predict(GPU, (turn(PLAIN), turn(PLAIN))) == (Prediction(2.0, 2.5),) * 2


def test_without_interference_everybody_runs_at_solo_speed():
    crowd = (mps(None), mps(HEAVY, 100), turn(VAGUE), cut(None))
    assert NoInterference().predict(GPU, crowd) == (ALONE,) * 4
    assert NoInterference().predict(GPU, ()) == ()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_answers_to_its_name(name):
    assert model_named(name).name == name


@pytest.mark.parametrize("name", ["", "None", "addititve", "additive "])
def test_an_unknown_model_is_answered_with_the_known_ones(name):
    with pytest.raises(UnknownName, match=f"{name!r} is unknown; choose one of additive, none"):
        model_named(name)


def inside(mode: Mode, milli: int, start: int) -> Share:
    return Share("g", mode, milli, None, "3g.40gb", start)


SLICE, TURNS = Share("g", Mode.MIG, 428, None, "3g.40gb", 4), Mode.TIMESLICE
LARGE = 500 / 428
"""How much less than PLAIN could use three slices of seven are; they have half of the memory bandwidth."""
IN_SLICES = {
    # who is on the GPU -> slowdown of the first, worked out by hand
    "alone in a slice that is large enough": ([(LIGHT, inside(Mode.MPS, 428, 0))], 1.0),
    "alone in a slice that is too small": ([(HEAVY, inside(TURNS, 428, 0))], 900 / 428),
    "two halves": ([(LIGHT, inside(Mode.MPS, 214, 0))] * 2, 1 + 0.46 * 0.467 * 0.467 + 0.35 * 0.2 * 0.2),
    "who could use more than a half": (
        [(PLAIN, inside(Mode.MPS, 214, 0))] * 2, (1 + 0.46 * 0.499) * 1000 / 499 * LARGE
    ),
    "turns": ([(LIGHT, inside(TURNS, 214, 0))] * 2, 1 + 1.12 * 0.467),
    "turns of who could use more than the slice": ([(PLAIN, inside(TURNS, 214, 0))] * 2, (1 + 1.12) * LARGE),
    "a whole slice beside it": ([(LIGHT, inside(TURNS, 428, 0)), (HEAVY, SLICE)], 1.0),
    "those in another slice": (
        [*[(LIGHT, inside(TURNS, 214, 0))] * 2, *[(None, inside(TURNS, 214, 4))] * 2], 1 + 1.12 * 0.467
    ),
    "a stranger in the same": ([(LIGHT, inside(TURNS, 214, 0)), (None, inside(TURNS, 214, 0))], None),
    "shares of the GPU itself": (
        [(LIGHT, Share("g", TURNS, 200)), (HEAVY, Share("g", TURNS, 800))], 1 + 1.12 * 0.9
    ),
}  # fmt: skip


@pytest.mark.parametrize(("there", "slowdown"), IN_SLICES.values(), ids=IN_SLICES)
def test_who_shares_a_slice_has_the_others_in_it_for_neighbours_and_it_for_a_gpu(there, slowdown):
    first = predictions_of(AdditiveInterference(), GPU, there)[0]
    assert first.slowdown == (None if slowdown is None else pytest.approx(slowdown))
    assert (first.upper is None) == (slowdown is None)


def test_predictions_come_in_the_order_of_those_who_are_there():
    there = [(HEAVY, SLICE), (LIGHT, inside(TURNS, 214, 0)), (None, SLICE), (PLAIN, inside(TURNS, 214, 0))]
    forward = predictions_of(AdditiveInterference(), GPU, there)
    assert predictions_of(AdditiveInterference(), GPU, there[::-1]) == forward[::-1]
    assert len({prediction.slowdown for prediction in forward}) == len(there)
