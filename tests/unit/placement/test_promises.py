"""Promises: who may join whom, judged by the upper bound and never on hope."""

from __future__ import annotations

import pytest

from placement.interference import AdditiveInterference, NoInterference, Prediction, Resident
from placement.model import Mode, Profile, Reason
from placement.neighbourhood import Neighbour, NeighbourhoodTable, neighbourhood_of, token_of
from placement.promises import broken_promise

GPU = "A100-SXM4-80GB"
LIGHT, HEAVY = Profile("light", sm_milli=200), Profile("heavy", sm_milli=1000)
OWN, NEIGHBOURS = Reason.OWN_PROMISE, Reason.NEIGHBOUR_PROMISE


def mps(profile: Profile | None, promise: float | None = None, milli: int = 500) -> Neighbour:
    return Neighbour(Resident(profile, Mode.MPS, milli), promise)


def mig(profile: Profile | None, promise: float | None = None) -> Neighbour:
    return Neighbour(Resident(profile, Mode.MIG, 428), promise)


# Beside one HEAVY at 500: LIGHT is slowed by 0.46 x 0.2 x 0.5 = 0.046, 0.0506 with the margin.
CASES = {
    # who is there, who comes, what breaks
    "nobody there, no promise": ([], mps(None), None),
    "nobody there, a stranger with a promise": ([], mps(None, 1.5), OWN),
    "nobody there, a known one with a promise": ([], mps(LIGHT, 1.0), None),
    "nobody there, its share is too small": ([], mps(HEAVY, 1.9), OWN),
    "nobody there, its share is small but it may be slow": ([], mps(HEAVY, 2.1), None),
    "no promises at all": ([mps(HEAVY), mps(None)], mps(HEAVY), None),
    "own promise holds": ([mps(HEAVY)], mps(LIGHT, 1.051), None),
    "own promise holds by the mean but not by the bound": ([mps(HEAVY)], mps(LIGHT, 1.048), OWN),
    "own promise beside a stranger": ([mps(None)], mps(LIGHT, 9.0), OWN),
    "own promise beside a stranger among others": ([mps(LIGHT), mps(None)], mps(LIGHT, 9.0), OWN),
    "a neighbour's promise holds": ([mps(LIGHT, 1.051)], mps(HEAVY), None),
    "a neighbour's promise breaks": ([mps(LIGHT, 1.048)], mps(HEAVY), NEIGHBOURS),
    "a stranger joins one with a promise": ([mps(LIGHT, 9.0)], mps(None), NEIGHBOURS),
    "a third is too many for the first": ([mps(LIGHT, 1.06), mps(HEAVY)], mps(HEAVY), NEIGHBOURS),
    "both would break: the one that is there is named": ([mps(LIGHT, 1.0)], mps(LIGHT, 1.0), NEIGHBOURS),
    "slices are apart": ([mig(HEAVY)], mig(LIGHT, 1.0), None),
    "slices are apart from strangers": ([mig(None)], mig(LIGHT, 1.0), None),
    "a stranger joins a promise in another slice": ([mig(LIGHT, 1.0)], mig(None), None),
    "a stranger with a promise in a slice": ([mig(LIGHT)], mig(None, 9.0), OWN),
}


@pytest.mark.parametrize(("there", "comes", "broken"), CASES.values(), ids=CASES)
def test_what_would_break(there, comes, broken):
    place = neighbourhood_of(GPU, 0, there)
    assert broken_promise(AdditiveInterference(), comes, place) is broken


@pytest.mark.parametrize(("there", "comes", "_broken"), CASES.values(), ids=CASES)
def test_a_model_that_foresees_no_interference_vouches_for_everybody(there, comes, _broken):
    assert broken_promise(NoInterference(), comes, neighbourhood_of(GPU, 0, there)) is None


def test_the_belief_is_asked_for_the_model_of_the_gpu_and_for_all_residents():
    asked = []

    class Spy:
        name = "spy"

        def predict(self, gpu_model, residents):
            asked.append((gpu_model, residents))
            return (Prediction(1.0, 1.5),) * len(residents)

    there, comes = [mps(HEAVY), mps(LIGHT, 1.5)], mps(None, 1.5)
    assert broken_promise(Spy(), comes, neighbourhood_of(GPU, 0, there)) is None
    assert asked == [(GPU, tuple(n.resident for n in [*there, comes]))]


def known(neighbours):
    """The same residents as the cluster keeps them."""
    facts = [
        (n.resident.profile, n.resident.mode, n.resident.compute_milli, n.max_slowdown) for n in neighbours
    ]
    return [(token_of(fact), fact) for fact in facts]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([mps(LIGHT), mps(HEAVY)], [mps(HEAVY), mps(LIGHT)], True),
        ([mps(None)], [mps(None), mps(None)], True),
        ([mps(None), mps(LIGHT)], [mps(LIGHT), mps(None), mps(None, milli=100)], True),
        ([mps(LIGHT)], [mps(LIGHT), mps(LIGHT)], False),
        ([mps(LIGHT)], [mps(LIGHT), mps(None)], False),
        ([mps(LIGHT)], [mps(LIGHT, 1.5)], False),
        ([mps(LIGHT, 1.2)], [mps(LIGHT, 1.5)], False),
        ([mps(LIGHT)], [mps(LIGHT, milli=400)], False),
        ([mps(LIGHT)], [mig(LIGHT)], False),
        ([mps(None)], [mig(None)], False),
        ([mps(None, 1.5)], [mps(None)], False),
        ([mps(None, 1.5)], [mps(None, 1.5), mps(None, 1.5)], False),
        ([], [mps(None)], False),
    ],
)
def test_which_neighbourhoods_are_one(one, other, same):
    table = NeighbourhoodTable()
    numbers = [table.number(GPU, 0, known(residents)) for residents in (one, other)]
    assert [table[number] for number in numbers] == [neighbourhood_of(GPU, 0, r) for r in (one, other)]
    assert (numbers[0] == numbers[1]) is same
    assert len(table) == len(set(numbers))


def test_kinds_of_gpus_have_their_own_neighbourhoods():
    table = NeighbourhoodTable()
    assert table.number(GPU, 0, []) != table.number("T4", 1, [])
