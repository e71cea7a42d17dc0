"""GPU models by short names, nodes from short forms, and hints for slips of the hand."""

from __future__ import annotations

import pytest

from placement.model import (
    KNOWN_GPU_MEMORY_BYTES,
    Gpu,
    InvalidSpec,
    Node,
    UnknownName,
    model_matches,
    node_from_short_form,
)
from placement.model.hardware import known_gpu_models, suggest_gpu_model

GIB = 1 << 30


@pytest.mark.parametrize(
    ("selector", "model", "selected"),
    [
        ("A100", "A100-SXM4-80GB", True),
        ("A100-SXM4", "A100-SXM4-80GB", True),
        ("A100-SXM4-80GB", "A100-SXM4-80GB", True),
        ("a100-sxm4-80gb", "A100-SXM4-80GB", True),
        ("A100", "a100-pcie-40gb", True),
        ("A10", "A100-SXM4-80GB", False),
        ("A100-SXM", "A100-SXM4-80GB", False),
        ("A100-SXM4-80GB-X", "A100-SXM4-80GB", False),
        ("80GB", "A100-SXM4-80GB", False),
        ("SXM4", "A100-SXM4-80GB", False),
        ("A100-", "A100-SXM4-80GB", False),
        ("", "A100-SXM4-80GB", False),
        ("V100M16", "V100M16", True),
        ("V100", "V100M16", False),
        ("H100", "GH200-96GB", False),
    ],
)
def test_a_selector_is_the_leading_parts_of_a_model(selector, model, selected):
    assert model_matches(selector, model) is selected


@pytest.mark.parametrize(
    ("text", "count", "model", "memory_bytes"),
    [
        ("4xA100-SXM4-80GB", 4, "A100-SXM4-80GB", 80 * GIB),
        ("1xh100-sxm5-80gb", 1, "H100-SXM5-80GB", 80 * GIB),
        ("64xT4-16GB", 64, "T4-16GB", 16 * GIB),
        ("08xV100-SXM2-32GB", 8, "V100-SXM2-32GB", 32 * GIB),
        ("2xG2", 2, "G2", None),
        ("3xk80", 3, "k80", None),
        ("1xH200-SXM5-141GB", 1, "H200-SXM5-141GB", 141 * GIB),
    ],
)
def test_a_node_from_its_short_form(text, count, model, memory_bytes):
    gpus = tuple(Gpu(f"GPU-node-7-{slot}", model, memory_bytes) for slot in range(count))
    assert node_from_short_form(text, "node-7") == Node("node-7", gpus, cpu_milli=None, ram_bytes=None)


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("", InvalidSpec, "write COUNTxMODEL"),
        ("4", InvalidSpec, "write COUNTxMODEL"),
        ("A100-SXM4-80GB", InvalidSpec, "write COUNTxMODEL"),
        ("x", InvalidSpec, "write COUNTxMODEL"),
        ("4x", InvalidSpec, "write COUNTxMODEL"),
        ("xA100-SXM4-80GB", InvalidSpec, "write COUNTxMODEL"),
        ("4XA100-SXM4-80GB", InvalidSpec, "write COUNTxMODEL"),
        ("-1xA100-SXM4-80GB", InvalidSpec, "write COUNTxMODEL"),
        ("1.5xA100-SXM4-80GB", InvalidSpec, "write COUNTxMODEL"),
        ("nanxA100-SXM4-80GB", InvalidSpec, "write COUNTxMODEL"),
        (" 4xA100-SXM4-80GB", InvalidSpec, "write COUNTxMODEL"),
        ("\u0664xA100-SXM4-80GB", InvalidSpec, "write COUNTxMODEL"),
        ("\u00b2xA100-SXM4-80GB", InvalidSpec, "write COUNTxMODEL"),
        ("9" * 5000 + "xA100-SXM4-80GB", InvalidSpec, "write COUNTxMODEL"),
        ("0xA100-SXM4-80GB", InvalidSpec, "1 to 64 GPUs"),
        ("65xA100-SXM4-80GB", InvalidSpec, "1 to 64 GPUs"),
        ("9999xA100-SXM4-80GB", InvalidSpec, "1 to 64 GPUs"),
        ("4xA100", UnknownName, "'A100' is unknown"),
        ("4xH100-SXM-80GB", UnknownName, "did you mean 'H100-SXM5-80GB'"),
        ("4x8xV100-SXM2-32GB", UnknownName, "'8xV100-SXM2-32GB' is unknown"),
        ("4xzzzzzzzz", UnknownName, "known models: A10-24GB, "),
    ],
)
def test_a_wrong_short_form_says_what_to_write(text, error, hint):
    with pytest.raises(error) as caught:
        node_from_short_form(text, "n")
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("h100-sxm5-80", "H100-SXM5-80GB"),
        ("A100-SXM4-80G", "A100-SXM4-80GB"),
        ("RTX-4090-24GB", "RTX4090-24GB"),
        ("v100m61", "V100M16"),
        ("K08", "k80"),
    ],
)
def test_a_slip_of_the_hand_gets_the_nearest_model(name, suggested):
    assert suggest_gpu_model(name) == f"; did you mean {suggested!r}?"


def test_a_name_like_none_gets_them_all():
    hint = suggest_gpu_model("!!!!")
    assert all(model in hint for model in known_gpu_models())


def test_the_memory_in_the_name_is_the_memory():
    named = {model: int(model.rsplit("-", 1)[1].removesuffix("GB")) for model in KNOWN_GPU_MEMORY_BYTES}
    assert {model: gib * GIB for model, gib in named.items()} == KNOWN_GPU_MEMORY_BYTES
