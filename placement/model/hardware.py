"""What a cluster is made of: GPU models, GPUs, nodes."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace

from placement.model.errors import InvalidSpec, UnknownName

GIB = 1 << 30
MAX_GPUS_PER_NODE = 64


@dataclass(frozen=True, slots=True)
class Gpu:
    """One physical GPU; its identity is the UUID, never an index.

    ``memory_bytes`` None means unknown (then memory constrains nothing on it).
    """

    uuid: str
    model: str
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One machine; ``cpu_milli`` and ``ram_bytes`` None mean unlimited (or unknown).

    Nodes with the same ``nvlink_domain`` are joined by NVLink, those with the same ``rack`` stand together;
    None is unknown, and never the same as another's.
    """

    node_id: str
    gpus: tuple[Gpu, ...] = ()
    cpu_milli: int | None = None
    ram_bytes: int | None = None
    nvlink_domain: str | None = None
    rack: str | None = None

    def __post_init__(self) -> None:
        """Raises InvalidSpec: more GPUs than the search can tell apart, or one that is named twice."""
        if len(self.gpus) > MAX_GPUS_PER_NODE:
            raise InvalidSpec(f"node {self.node_id!r} has {len(self.gpus)} GPUs; at most {MAX_GPUS_PER_NODE}")
        uuids = [gpu.uuid for gpu in self.gpus]
        for uuid in uuids if len({*uuids}) < len(uuids) else ():
            if uuids.count(uuid) > 1:
                raise InvalidSpec(f"node {self.node_id!r} names GPU {uuid!r} more than once")


def without_gpus(node: Node, uuids: Set[str]) -> Node:
    """A node without those of its GPUs; the same one if it has none of them."""
    if all(gpu.uuid not in uuids for gpu in node.gpus):
        return node
    return replace(node, gpus=tuple(gpu for gpu in node.gpus if gpu.uuid not in uuids))


def each_gpu_once(nodes: Iterable[Node]) -> list[Node]:
    """The nodes without the GPUs that one before them names, too."""
    nodes = list(nodes)
    named = [gpu.uuid for node in nodes for gpu in node.gpus]
    if len({*named}) == len(named):
        return nodes
    seen: set[str] = set()
    once = []
    for node in nodes:
        once.append(without_gpus(node, seen))
        seen.update(gpu.uuid for gpu in node.gpus)
    return once


KNOWN_GPU_MEMORY_BYTES = {
    "A10-24GB": 24 * GIB,
    "A30-24GB": 24 * GIB,
    "A100-SXM4-40GB": 40 * GIB,
    "A100-PCIE-40GB": 40 * GIB,
    "A100-SXM4-80GB": 80 * GIB,
    "A100-PCIE-80GB": 80 * GIB,
    "B200-180GB": 180 * GIB,
    "GH200-96GB": 96 * GIB,
    "H100-NVL-94GB": 94 * GIB,
    "H100-PCIE-80GB": 80 * GIB,
    "H100-SXM5-80GB": 80 * GIB,
    "H200-SXM5-141GB": 141 * GIB,
    "K80-12GB": 12 * GIB,
    "L4-24GB": 24 * GIB,
    "L40S-48GB": 48 * GIB,
    "P100-SXM2-16GB": 16 * GIB,
    "RTX4090-24GB": 24 * GIB,
    "T4-16GB": 16 * GIB,
    "V100-SXM2-16GB": 16 * GIB,
    "V100-SXM2-32GB": 32 * GIB,
}
"""Nominal memory of the GPU models that short cluster forms may name."""

OPENB_MODELS = ("P100", "T4", "V100M16", "V100M32", "A10", "G1", "G2", "G3")
GAVEL_MODELS = ("k80", "p100", "v100")
"""Names that public traces use; their memory is not stated there, so it stays unknown."""


@functools.lru_cache(maxsize=4096)
def model_matches(selector: str, model: str) -> bool:
    """Whether a selector names this model: the whole name or its leading parts, in any case.

    ``A100`` and ``A100-SXM4`` select ``A100-SXM4-80GB``; ``A10`` does not.
    """
    wanted, name = selector.lower(), model.lower()
    return name == wanted or name.startswith(wanted + "-")


def known_gpu_models() -> tuple[str, ...]:
    """Every GPU model that can be named without a node reporting it."""
    return (*sorted(KNOWN_GPU_MEMORY_BYTES), *OPENB_MODELS, *GAVEL_MODELS)


def suggest_gpu_model(name: str) -> str:
    """A hint for a mistyped model: ``; did you mean 'H100-SXM5-80GB'?`` or the list of models."""
    family = [model for model in known_gpu_models() if model_matches(name, model)]
    if family:
        return f"; did you mean {' or '.join(map(repr, family))}?"
    folded = {model.lower(): model for model in known_gpu_models()}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {folded[close[0]]!r}?"
    return f"; known models: {', '.join(known_gpu_models())}"


def node_from_short_form(text: str, node_id: str) -> Node:
    """A node from ``4xA100-SXM4-80GB``: four GPUs of that model, unlimited CPU and RAM.

    Raises:
        InvalidSpec: not of that form, or no GPUs or more than 64.
        UnknownName: nobody knows the GPU model.
    """
    count, times, model = text.partition("x")
    if not times or not count.isascii() or not count.isdigit() or len(count) > 4 or not model:
        raise InvalidSpec(f"node {text!r}: write COUNTxMODEL, for example 4xA100-SXM4-80GB")
    if not 1 <= int(count) <= MAX_GPUS_PER_NODE:
        raise InvalidSpec(f"node {text!r}: a node has 1 to {MAX_GPUS_PER_NODE} GPUs")
    folded = {known.lower(): known for known in known_gpu_models()}
    known = model if model in known_gpu_models() else folded.get(model.lower())
    if known is None:
        raise UnknownName(f"GPU model {model!r} is unknown{suggest_gpu_model(model)}")
    memory_bytes = KNOWN_GPU_MEMORY_BYTES.get(known)
    gpus = tuple(Gpu(f"GPU-{node_id}-{slot}", known, memory_bytes) for slot in range(int(count)))
    return Node(node_id, gpus)
