"""The cluster of a simulation: a short form such as ``64x8xV100-SXM2-32GB``, the openb node CSV, or YAML.

The YAML form lists groups of equal nodes::

    nodes:
      - {count: 4, gpus: 8, model: A100-SXM4-80GB, cpu: 96, memory: 1Ti}
      - {name: head, cpu: 32, memory: 128Gi}

``count`` defaults to 1, ``gpus`` to 0; CPU and memory are unlimited unless given; ``gpu_memory`` is needed
only for a model that nobody knows.  ``rack`` and ``nvlink_domain`` say where all nodes of the group are.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from placement.model import Gpu, InvalidInput, InvalidSpec, Node, UnknownName, parse_bytes
from placement.model.hardware import (
    KNOWN_GPU_MEMORY_BYTES,
    MAX_GPUS_PER_NODE,
    known_gpu_models,
    node_from_short_form,
    suggest_gpu_model,
)
from simulator.traces.fields import columns, identifier, whole
from simulator.traces.reading import open_text

MAX_NODES = 1_000_000
_SHORT = re.compile(r"(?:(?P<nodes>[0-9]{1,7})x)?(?P<node>[0-9]{1,4}x[A-Za-z][A-Za-z0-9._-]*)", re.ASCII)
_OPENB_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_GROUP_KEYS = frozenset(
    {"count", "gpus", "model", "gpu_memory", "cpu", "memory", "name", "rack", "nvlink_domain"}
)
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A cluster by name, as the user gave it."""

    name: str
    nodes: tuple[Node, ...]

    @property
    def gpu_count(self) -> int:
        """All GPUs of all nodes."""
        return sum(len(node.gpus) for node in self.nodes)


def load_cluster(spec: str) -> ClusterSpec:
    """The cluster of a short form (several joined by ``+``) or of a node list file.

    Raises:
        InvalidInput: neither a short form nor a readable node list; the message names the file and line.
    """
    if Path(spec).is_dir():
        raise InvalidSpec(
            f"cluster {spec!r}: {'is a folder' if spec else 'is empty'}; write NODESxGPUSxMODEL, "
            "for example 64x8xV100-SXM2-32GB, or name a file"
        )
    parts = [_SHORT.fullmatch(part.strip()) for part in spec.split("+")]
    if any(part is None for part in parts):
        if not Path(spec).exists():
            raise InvalidSpec(
                f"cluster {spec!r}: is no file and no short form; write NODESxGPUSxMODEL, "
                "for example 64x8xV100-SXM2-32GB"
            )
        nodes = tuple(_from_file(Path(spec)))
    else:
        nodes = tuple(_from_short([part for part in parts if part is not None], spec))
    if not nodes:
        raise InvalidSpec(f"cluster {spec!r}: has no nodes")
    if len({node.node_id for node in nodes}) < len(nodes):
        raise InvalidSpec(f"cluster {spec!r}: two nodes have the same name")
    return ClusterSpec(spec, nodes)


def _from_short(parts: list[re.Match[str]], spec: str) -> Iterator[Node]:
    total = sum(int(part["nodes"] or 1) for part in parts)
    if not 0 < total <= MAX_NODES:
        raise InvalidSpec(f"cluster {spec!r}: has {total} nodes; 1 to {MAX_NODES} are possible")
    number = 0
    for part in parts:
        for _ in range(int(part["nodes"] or 1)):
            yield node_from_short_form(part["node"], f"node-{number:04d}")
            number += 1


def _from_file(path: Path) -> Iterator[Node]:
    with open_text(path) as text:
        try:
            first = text.readline()
        except (UnicodeDecodeError, OSError, EOFError) as error:
            raise InvalidSpec(f"{path}:1: is not a text file: {error}") from error
    header = [name.strip() for name in first.split(",")]
    return _from_openb(path) if set(_OPENB_COLUMNS) <= set(header) else _from_yaml(path)


def _from_openb(path: Path) -> Iterator[Node]:
    with open_text(path) as text:
        lines = csv.reader(text)
        try:
            place = columns([name.strip() for name in next(lines)], _OPENB_COLUMNS)
            for fields in lines:
                if fields:
                    yield _openb_node(fields, place)
        except (InvalidInput, csv.Error, UnicodeDecodeError) as error:
            raise InvalidSpec(f"{path}:{lines.line_num}: {error}") from error


def _openb_node(fields: list[str], place: Mapping[str, int]) -> Node:
    if len(fields) != len(place):
        raise InvalidSpec(f"{len(fields)} fields where {len(place)} are expected")
    name, cpu, ram, gpus, model = (fields[place[column]].strip() for column in _OPENB_COLUMNS)
    node_id = identifier(name, "sn")
    count = whole(gpus, "gpu", 0, MAX_GPUS_PER_NODE)
    if count and not model:
        raise InvalidSpec(f"model: is empty, but the node has {count} GPUs")
    if count and model not in known_gpu_models():
        raise UnknownName(f"model: {model!r} is unknown{suggest_gpu_model(model)}")
    return Node(
        node_id,
        tuple(Gpu(f"GPU-{node_id}-{slot}", model) for slot in range(count)),
        cpu_milli=whole(cpu, "cpu_milli", 0, 1 << 40),
        ram_bytes=whole(ram, "memory_mib", 0, 1 << 40) * _MIB,
    )


def _from_yaml(path: Path) -> Iterator[Node]:
    try:
        with open_text(path) as text:
            content = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise InvalidSpec(f"{path}:{line}: is not a node list: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSpec(f"{path}:1: is not a node list: {error}") from error
    groups = content.get("nodes") if isinstance(content, dict) else None
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        raise InvalidSpec(
            f"{path}: needs a list 'nodes' of groups such as {{count: 4, gpus: 8, model: A100-SXM4-80GB}}"
        )
    number = 0
    for position, group in enumerate(groups, start=1):
        try:
            nodes = _group(group, number)
        except InvalidInput as error:
            raise InvalidSpec(f"{path}: group {position}: {error}") from error
        yield from nodes
        number += len(nodes)


def _group(group: Mapping[str, Any], first: int) -> list[Node]:
    unknown = sorted(str(key) for key in set(group) - _GROUP_KEYS)
    if unknown:
        raise InvalidSpec(f"unknown key {unknown[0]!r}; known: {', '.join(sorted(_GROUP_KEYS))}")
    count = whole(str(group.get("count", 1)), "count", 1, MAX_NODES)
    gpus = whole(str(group.get("gpus", 0)), "gpus", 0, MAX_GPUS_PER_NODE)
    model, memory_bytes = _gpu_model(group) if gpus else ("", None)
    cpu = group.get("cpu")
    ram = group.get("memory")
    rack, domain = (
        identifier(str(group[key]), key) if key in group else None for key in ("rack", "nvlink_domain")
    )
    nodes = []
    for number in range(count):
        node_id = f"node-{first + number:04d}"
        if "name" in group:
            node_id = identifier(str(group["name"]) + (f"-{number}" if count > 1 else ""), "name")
        nodes.append(
            Node(
                node_id,
                tuple(Gpu(f"GPU-{node_id}-{slot}", model, memory_bytes) for slot in range(gpus)),
                cpu_milli=whole(str(cpu), "cpu", 0, 1_000_000) * 1000 if cpu is not None else None,
                ram_bytes=parse_bytes(str(ram), "memory") if ram is not None else None,
                nvlink_domain=domain,
                rack=rack,
            )
        )
    return nodes


def _gpu_model(group: Mapping[str, Any]) -> tuple[str, int | None]:
    """Model and memory of a group's GPUs; a model that nobody knows must state its memory."""
    model = str(group.get("model", ""))
    if not model:
        raise InvalidSpec("model: is needed where gpus is given")
    stated = parse_bytes(str(group["gpu_memory"]), "gpu_memory") if "gpu_memory" in group else None
    if model not in known_gpu_models() and stated is None:
        raise UnknownName(
            f"GPU model {model!r} is unknown{suggest_gpu_model(model)}, or state its gpu_memory"
        )
    return model, stated if stated is not None else KNOWN_GPU_MEMORY_BYTES.get(model)
