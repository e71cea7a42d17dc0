"""How a request reads in listings and explanations."""

from __future__ import annotations

import pytest

from cli.texts import request_text
from manager.wire.models import RequestSpec
from placement.model import Devices, Level, Mode, Request, Together

MPS = frozenset({Mode.MPS})
TEXTS = {
    "1 GPU": Request(),
    "2 GPUs 30% mps": Request(gpus=2, compute_milli=300, modes=MPS),
    "2 shares of one GPU 30% mps": Request(gpus=2, compute_milli=300, modes=MPS, devices=Devices.SAME),
    "8 GPUs together:rack": Request(gpus=8, together=Together(Level.RACK)),
    "1 GPU <=1.2x together:gpu-type,required": Request(
        max_slowdown=1.2, together=Together(Level.GPU_TYPE, required=True)
    ),
}


@pytest.mark.parametrize(("text", "request_"), TEXTS.items(), ids=TEXTS)
def test_a_request_reads(text, request_):
    assert request_text(RequestSpec.of(request_)) == text
