"""MPS clients and percentages; MPS shares and time slices inside a whole GPU or a MIG instance."""

from __future__ import annotations

import random

import pytest

from placement.model import KNOWN_GPU_MEMORY_BYTES, Mode, Reason, Share, UnknownName
from placement.partition import (
    MPS_MAX_CLIENTS,
    Container,
    MigGeometry,
    Need,
    active_thread_percentage,
    geometry_of,
    mig_instance,
    mps_max_clients,
    mps_max_clients_in_slice,
    room_for,
    share_a_fault,
    whole_gpu,
    why_not,
)

GIB = 1 << 30
OLD = {"K80-12GB", "P100-SXM2-16GB"}


def geometry(model: str) -> MigGeometry:
    found = geometry_of(model)
    assert found is not None
    return found


A100, A30 = geometry("A100-SXM4-80GB"), geometry("A30-24GB")


@pytest.mark.parametrize(
    ("model", "clients"),
    [
        *((model, 16 if model in OLD else 48) for model in sorted(KNOWN_GPU_MEMORY_BYTES)),
        # names of public traces
        ("P100", 16),
        ("p100", 16),
        ("k80", 16),
        ("v100", 48),
        ("V100M16", 48),
        ("T4", 48),
        ("A10", 48),
        ("G1", 48),
        # others that a node may report
        ("P4-8GB", 16),
        ("P40-24GB", 16),
        ("M60-8GB", 16),
        ("GTX-1080-Ti-11GB", 16),
        ("TITAN-Xp-12GB", 16),
        ("TITAN-V-12GB", 48),
        ("GTX-1660-6GB", 48),
        ("RTX-2080-Ti-11GB", 48),
        ("Quadro-P6000-24GB", 16),
        ("", 48),
    ],
)
def test_clients_of_one_mps_server(model, clients):
    assert mps_max_clients(model) == clients
    assert whole_gpu(model, None).max_clients == clients


def test_the_limit_since_volta_is_the_one_that_is_exported():
    assert MPS_MAX_CLIENTS == 48


@pytest.mark.parametrize(
    ("gpu", "profile", "clients"),
    [
        (A100, "1g.10gb", 6),
        (A100, "1g.10gb+me", 6),
        (A100, "1g.20gb", 6),
        (A100, "2g.20gb", 13),
        (A100, "3g.40gb", 20),
        (A100, "4g.40gb", 27),
        (A100, "7g.80gb", 48),
        (A30, "1g.6gb", 12),
        (A30, "2g.12gb+me", 24),
        (A30, "4g.24gb", 48),
    ],
)
def test_clients_in_a_mig_instance_are_fewer_in_proportion(gpu, profile, clients):
    assert mps_max_clients_in_slice(gpu, profile) == clients
    assert mig_instance(gpu, profile).max_clients == clients


@pytest.mark.parametrize(
    ("share", "container", "percentage"),
    [
        (1000, 1000, 100),
        (300, 1000, 30),
        (305, 1000, 30),
        (9, 1000, 1),
        (1, 1000, 1),
        # of a slice's compute, not of the GPU's
        (142, 142, 100),
        (71, 142, 50),
        (142, 428, 33),
        (300, 285, 100),
    ],
)
def test_the_percentage_is_of_what_the_share_lies_in(share, container, percentage):
    assert active_thread_percentage(share, container) == percentage


@pytest.mark.parametrize(
    ("gpu", "profile", "expected"),
    [
        (A100, "1g.10gb", Container(142, 9850 << 20, 6)),
        (A100, "1g.20gb", Container(142, 19968 << 20, 6)),
        (A100, "3g.40gb", Container(428, 40192 << 20, 20)),
        (A30, "2g.12gb", Container(500, 11672 << 20, 24)),
    ],
)
def test_a_slice_is_a_container_of_its_compute_memory_and_clients(gpu, profile, expected):
    assert mig_instance(gpu, profile) == expected


def test_a_whole_gpu_is_a_container():
    assert whole_gpu("V100-SXM2-32GB", 32 * GIB) == Container(1000, 32 * GIB, 48)
    assert whole_gpu("P100", None) == Container(1000, None, 16)


def test_an_unknown_profile_is_refused():
    with pytest.raises(UnknownName):
        mig_instance(A100, "1g.5gb")


MODES = {"mps": Mode.MPS, "ts": Mode.TIMESLICE, "mig": Mode.MIG, "all": Mode.EXCLUSIVE}


def needs(text: str) -> list[Need]:
    """``mps:100:4`` is 100 thousandths and 4 GiB, ``-`` no stated memory; ``3*`` makes three of them."""
    found = []
    for word in text.split():
        times, _, share = word.rpartition("*")
        mode, milli, memory = share.split(":")
        need = Need(MODES[mode], int(milli), None if memory == "-" else int(memory) * GIB)
        found += [need] * int(times or 1)
    return found


V100, P100, NAMELESS = whole_gpu("V100", 32 * GIB), whole_gpu("P100", 16 * GIB), whole_gpu("T4", None)
SMALL, HALF, QUARTER = (
    mig_instance(A100, "1g.10gb"),
    mig_instance(A100, "3g.40gb"),
    mig_instance(A30, "1g.6gb"),
)
BUSY, MODE, COMPUTE, MEMORY, CLIENTS = (
    Reason.GPU_BUSY,
    Reason.GPU_MODE,
    Reason.GPU_COMPUTE,
    Reason.GPU_MEMORY,
    Reason.MPS_CLIENTS,
)

RULES = [
    # container, holds, wanted, refused because
    (V100, "", "mps:1000:32", None),
    (V100, "", "mps:1000:33", MEMORY),
    (V100, "mps:600:4", "mps:400:28", None),
    (V100, "mps:600:4", "mps:401:28", COMPUTE),
    (V100, "mps:600:4", "mps:400:29", MEMORY),
    (V100, "mps:600:-", "mps:400:32", None),
    (NAMELESS, "mps:600:900", "mps:400:900", None),
    (V100, "47*mps:20:-", "mps:20:-", None),
    (V100, "48*mps:20:-", "mps:20:-", CLIENTS),
    (P100, "15*mps:20:-", "mps:20:-", None),
    (P100, "16*mps:20:-", "mps:20:-", CLIENTS),
    # time slices: the memory adds up, the turns too; no server and so no clients
    (V100, "ts:500:16", "ts:500:16", None),
    (V100, "ts:500:16", "ts:500:17", MEMORY),
    (V100, "ts:500:1", "ts:501:1", COMPUTE),
    (V100, "48*ts:20:-", "ts:20:-", None),
    # one mode at a time
    (V100, "ts:100:1", "mps:100:1", MODE),
    (V100, "mps:100:1", "ts:100:1", MODE),
    (V100, "mps:100:1", "all:1000:-", BUSY),
    (V100, "all:1000:-", "mps:100:1", BUSY),
    (V100, "", "all:1000:-", None),
    # in a MIG instance its compute, memory and clients count
    (SMALL, "", "mps:142:9", None),
    (SMALL, "", "mps:143:9", COMPUTE),
    (SMALL, "", "mps:142:10", MEMORY),
    (SMALL, "mps:71:4", "mps:71:5", None),
    (SMALL, "mps:71:4", "mps:72:5", COMPUTE),
    (SMALL, "5*mps:20:1", "mps:20:1", None),
    (SMALL, "6*mps:20:1", "mps:20:1", CLIENTS),
    (SMALL, "7*ts:20:1", "ts:2:2", None),
    (SMALL, "7*ts:20:1", "ts:2:3", MEMORY),
    (SMALL, "ts:20:1", "mps:20:1", MODE),
    (SMALL, "mps:20:1", "mig:142:9", BUSY),
    (SMALL, "mig:142:9", "mps:20:1", BUSY),
    (SMALL, "mig:142:9", "mig:142:9", BUSY),
    (SMALL, "", "mig:142:9", None),
    (HALF, "2*mps:200:19", "mps:28:1", None),
    (HALF, "2*mps:200:19", "mps:29:1", COMPUTE),
    (HALF, "20*mps:20:-", "mps:20:-", CLIENTS),
    (QUARTER, "12*mps:20:-", "mps:10:-", CLIENTS),
]


@pytest.mark.parametrize(("container", "held", "wanted", "reason"), RULES)
def test_what_a_container_takes(container, held, wanted, reason):
    assert why_not(container, needs(held), *needs(wanted)) is reason


@pytest.mark.parametrize(
    ("container", "held", "wanted", "room"),
    [
        (V100, "", "mps:100:4", 8),
        (V100, "", "mps:100:-", 10),
        (V100, "", "mps:1:-", 48),
        (V100, "", "ts:1:-", 1000),
        (P100, "mps:500:1", "mps:1:-", 15),
        (V100, "", "all:1000:-", 1),
        (V100, "", "all:500:-", 1),
        (V100, "mps:100:1", "all:1000:-", 0),
        (SMALL, "", "mps:20:1", 6),
        (SMALL, "mps:40:7", "mps:20:1", 2),
        (SMALL, "", "ts:20:1", 7),
        (SMALL, "", "mig:142:9", 1),
        (SMALL, "mig:142:9", "mig:142:9", 0),
        (NAMELESS, "", "mps:500:900", 2),
    ],
)
def test_how_many_more_a_container_takes(container, held, wanted, room):
    assert room_for(container, needs(held), *needs(wanted)) == room


def test_the_room_is_how_often_one_more_is_taken():
    chance = random.Random(11)
    for _ in range(500):
        container = chance.choice([V100, P100, NAMELESS, SMALL, HALF, QUARTER])
        mode = chance.choice([Mode.MPS, Mode.TIMESLICE])
        wanted = Need(mode, chance.randint(5, 200), chance.choice([None, chance.randint(1, 9 * GIB)]))
        held: list[Need] = []
        expected = room_for(container, [], wanted)
        while why_not(container, held, wanted) is None:
            held.append(wanted)
            assert room_for(container, held, wanted) == expected - len(held)
        assert len(held) == expected


def share(mode: Mode, gpu: str = "GPU-a", start: int | None = None) -> Share:
    return Share(gpu, mode, 100, mig_profile=None if start is None else "1g.10gb", mig_start=start)


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (share(Mode.MPS), share(Mode.MPS), True),
        (share(Mode.MPS), share(Mode.MPS, gpu="GPU-b"), False),
        (share(Mode.MPS, start=0), share(Mode.MPS, start=0), True),
        (share(Mode.MPS, start=0), share(Mode.MPS, start=1), False),
        (share(Mode.MPS, start=0), share(Mode.MIG, start=0), False),
        (share(Mode.TIMESLICE), share(Mode.TIMESLICE), False),
        (share(Mode.MIG, start=0), share(Mode.MIG, start=1), False),
    ],
)
def test_the_clients_of_one_server_fall_together(one, other, together):
    assert share_a_fault(one, other) is together
    assert share_a_fault(other, one) is together
