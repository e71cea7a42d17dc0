"""Clusters from short forms, the openb node list, and YAML; what is wrong is named by file and line."""

import pytest

from placement.model import InvalidInput
from simulator.cluster_spec import load_cluster

OPENB = "sn,cpu_milli,memory_mib,gpu,model\n"
GIB = 1 << 30


@pytest.mark.parametrize(
    ("spec", "nodes", "models"),
    [
        ("64x8xV100-SXM2-32GB", 64, {"V100-SXM2-32GB": 512}),
        ("4xA100-SXM4-80GB", 1, {"A100-SXM4-80GB": 4}),
        ("2x4xv100 + 1x2xk80", 3, {"v100": 8, "k80": 2}),
        ("1x8xh100-sxm5-80gb", 1, {"H100-SXM5-80GB": 8}),
    ],
)
def test_short_forms(spec, nodes, models):
    cluster = load_cluster(spec)
    found: dict[str, int] = {}
    for node in cluster.nodes:
        assert (node.cpu_milli, node.ram_bytes) == (None, None), "short forms have unlimited CPU and RAM"
        for gpu in node.gpus:
            found[gpu.model] = found.get(gpu.model, 0) + 1
    assert (cluster.name, len(cluster.nodes), found) == (spec, nodes, models)
    assert [node.node_id for node in cluster.nodes] == [f"node-{n:04d}" for n in range(nodes)]
    assert cluster.nodes[0].gpus[0].uuid == "GPU-node-0000-0"
    assert cluster.gpu_count == sum(models.values())


def test_known_models_have_their_memory_and_those_of_traces_none():
    assert load_cluster("1x1xV100-SXM2-32GB").nodes[0].gpus[0].memory_bytes == 32 * GIB
    assert load_cluster("1x1xv100").nodes[0].gpus[0].memory_bytes is None


def test_openb_node_list(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text(OPENB + "a,64000,262144,2,P100\nb,94000,1024,0,\n")
    gpu_node, cpu_node = load_cluster(str(path)).nodes
    assert [gpu.uuid for gpu in gpu_node.gpus] == ["GPU-a-0", "GPU-a-1"]
    assert {(gpu.model, gpu.memory_bytes) for gpu in gpu_node.gpus} == {("P100", None)}
    assert (gpu_node.cpu_milli, gpu_node.ram_bytes) == (64000, 256 * GIB)
    assert (cpu_node.node_id, cpu_node.gpus, cpu_node.ram_bytes) == ("b", (), GIB)


def test_yaml_groups(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(
        """
        nodes:
          - {count: 2, gpus: 8, model: A100-SXM4-80GB, cpu: 96, memory: 1Ti}
          - {name: head, cpu: 32}
          - {count: 2, name: odd, gpus: 1, model: Z9, gpu_memory: 12Gi, rack: r1, nvlink_domain: 7}
        """
    )
    nodes = load_cluster(str(path)).nodes
    assert [node.node_id for node in nodes] == ["node-0000", "node-0001", "head", "odd-0", "odd-1"]
    assert [len(node.gpus) for node in nodes] == [8, 8, 0, 1, 1]
    assert (nodes[0].cpu_milli, nodes[0].ram_bytes) == (96_000, 1024 * GIB)
    assert (nodes[2].cpu_milli, nodes[2].ram_bytes) == (32_000, None)
    assert nodes[0].gpus[0].memory_bytes == 80 * GIB
    assert [(node.rack, node.nvlink_domain) for node in nodes[2:]] == [(None, None), ("r1", "7"), ("r1", "7")]
    assert (nodes[4].gpus[0].model, nodes[4].gpus[0].memory_bytes) == ("Z9", 12 * GIB)


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ("64x8xV101", r"GPU model 'V101' is unknown; did you mean"),
        ("0x8xT4-16GB", "has 0 nodes"),
        ("4x0xT4-16GB", "a node has 1 to"),
        ("4x999xT4-16GB", "a node has 1 to"),
        ("9999999x1xT4-16GB", "1 to 1000000 are possible"),
        ("64x8", "is no file and no short form"),
        ("64x8xT4-16GB+", "is no file and no short form"),
        ("no-such-file.csv", "is no file and no short form; write NODESxGPUSxMODEL"),
        (".", "is a folder"),
    ],
)
def test_specs_that_cannot_be_right(spec, what):
    with pytest.raises(InvalidInput, match=what):
        load_cluster(spec)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (OPENB + "a,1,1,1,V101\n", r"c:2: model: 'V101' is unknown; did you mean"),
        (OPENB + "a,1,1,1,T4\nb,-1,1,1,T4\n", r"c:3: cpu_milli: '-1' must be"),
        (OPENB + "a,1,1,1,\n", r"c:2: model: is empty, but the node has 1 GPUs"),
        (OPENB + "a,1,1\n", r"c:2: 3 fields where 5 are expected"),
        (OPENB + "a/b,1,1,1,T4\n", r"c:2: sn: 'a/b' must be"),
        (OPENB + "a,1,1,1,T4\na,1,1,1,T4\n", "two nodes have the same name"),
        (OPENB, "has no nodes"),
        ("nodes: []\n", "has no nodes"),
        ("nodes:\n  - {gpus: 4\n", r"c:3: is not a node list"),
        ("nodes: 5\n", "needs a list 'nodes'"),
        ("- 1\n", "needs a list 'nodes'"),
        ("nodes:\n  - {gpus: 4, model: T4-16GB}\n  - {gpu: 4}\n", "c: group 2: unknown key 'gpu'"),
        ("nodes:\n  - {gpus: 4}\n", "c: group 1: model: is needed"),
        ("nodes:\n  - {gpus: 4, model: T5}\n", "c: group 1: GPU model 'T5' is unknown"),
        ("nodes:\n  - {cpu: -4}\n", "c: group 1: cpu: '-4' must be"),
        ("nodes:\n  - {memory: .nan}\n", "c: group 1: memory: 'nan' is not an amount"),
        ("nodes:\n  - {rack: a b}\n", "c: group 1: rack: 'a b' must be"),
        ("nodes:\n  - {count: 0}\n", "c: group 1: count: '0' must be"),
        ("!!python/object/apply:os.system ['true']\n", "is not a node list"),
    ],
)
def test_files_that_cannot_be_right(tmp_path, text, what):
    path = tmp_path / "c"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=what) as caught:
        load_cluster(str(path))
    assert "\n" not in str(caught.value)
