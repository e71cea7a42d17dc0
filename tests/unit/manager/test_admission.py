"""What is refused because nobody knows it, and what the user is told to choose from."""

from __future__ import annotations

import pytest

from manager.admission import check_names
from manager.wire.models import RequestSpec
from placement.model import UnknownName
from tests.unit.manager.parts import node, spec

NODES = [node("node-a", "2xA100-SXM4-80GB"), node("node-b", "1xL4-24GB"), node("node-c", "4xA100-SXM4-80GB")]


@pytest.mark.parametrize(
    ("model", "nearest"),
    [
        ("FOO", ""),
        ("A100-SXM4-81GB", " did you mean A100-SXM4-80GB or "),
        ("L4-32GB", " did you mean L4-24GB"),
        ("A", ""),
    ],
)
@pytest.mark.parametrize(
    ("nodes", "held"), [(NODES, "A100-SXM4-80GB, L4-24GB"), ([], "no GPUs yet"), ([node("x", "1xT4")], "T4")]
)
def test_an_unknown_gpu_model_is_answered_with_those_of_the_cluster(model, nearest, nodes, held):
    with pytest.raises(UnknownName) as refused:
        check_names(spec(request=RequestSpec(gpu_models=[model])), nodes, [])
    message = str(refused.value)
    assert message.startswith(f"gpu_models: {model!r} is no known GPU model;{nearest}")
    assert message.endswith(f" the cluster has {held}")
    assert "\n" not in message


@pytest.mark.parametrize("model", ["A100", "a100-sxm4", "H100-SXM5-80GB", "L4"])
def test_a_model_that_is_known_may_be_absent(model):
    check_names(spec(request=RequestSpec(gpu_models=[model])), NODES, [])
