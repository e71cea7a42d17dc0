"""Which MIG slice a request for so much memory gets on each GPU model: nominal sizes promise too much."""

from __future__ import annotations

import pytest

from placement.model import KNOWN_GPU_MEMORY_BYTES, Mode, Request
from placement.partition import geometry_of, needs_of

GIB = 1 << 30


@pytest.mark.parametrize(
    ("model", "gib", "profile"),
    [
        ("A30-24GB", 5, "1g.6gb"),
        ("A30-24GB", 6, "2g.12gb"),
        ("A30-24GB", 12, "4g.24gb"),
        ("A30-24GB", 23, None),
        ("A100-SXM4-40GB", 4, "1g.5gb"),
        ("A100-PCIE-40GB", 5, "1g.10gb"),
        ("A100-PCIE-40GB", 10, "3g.20gb"),
        ("A100-PCIE-40GB", 20, "7g.40gb"),
        ("A100-SXM4-80GB", 10, "1g.20gb"),
        ("H100-SXM5-80GB", 79, "7g.80gb"),
        ("H100-SXM5-80GB", 80, None),
        ("H100-NVL-94GB", 11, "1g.24gb"),
        ("H100-NVL-94GB", 46, "3g.47gb"),
        ("GH200-96GB", 23, "1g.24gb"),
        ("H200-SXM5-141GB", 16, "1g.18gb"),
        ("H200-SXM5-141GB", 17, "1g.35gb"),
        ("H200-SXM5-141GB", 70, "7g.141gb"),
        # of two listings the smaller; what no listing gives is a lower bound
        ("B200-180GB", 20, "1g.23gb"),
        ("B200-180GB", 21, "1g.45gb"),
        ("B200-180GB", 88, "3g.90gb"),
        ("B200-180GB", 89, "7g.180gb"),
        ("B200-180GB", 177, "7g.180gb"),
        ("B200-180GB", 178, None),
        ("V100-SXM2-32GB", 1, None),
    ],
)
def test_the_smallest_slice_that_really_has_the_memory(model, gib, profile):
    request = Request(memory_bytes=gib * GIB, modes=frozenset({Mode.MIG}))
    need = needs_of(request, None, model, KNOWN_GPU_MEMORY_BYTES[model]).get(Mode.MIG)
    geometry = geometry_of(model)
    if profile is None:
        assert need is None
    else:
        assert need is not None
        assert need.mig_profile is not None
        assert geometry is not None
        assert geometry.profiles[need.mig_profile].name == profile


@pytest.mark.parametrize("model", ["A30-24GB", "A100-SXM4-40GB", "B200-180GB"])
def test_a_slice_with_the_media_engine_only_if_it_is_named(model):
    geometry = geometry_of(model)
    assert geometry is not None
    for index, cut in enumerate(geometry.profiles):
        named = needs_of(Request(mig_profile=cut.name), None, model, None)
        assert named[Mode.MIG].mig_profile == index
        sized = Request(memory_bytes=cut.memory_bytes, modes=frozenset({Mode.MIG}))
        found = needs_of(sized, None, model, KNOWN_GPU_MEMORY_BYTES[model])[Mode.MIG].mig_profile
        assert found is not None
        assert not geometry.profiles[found].media
