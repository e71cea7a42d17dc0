"""What a manager and its agents on this machine are waited for."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence

import pytest

from cli import local_cluster
from cli.local_cluster import LocalCluster, LocalNode, LocalSettings
from manager.wire.models import NodeView

REMEMBERED = NodeView(
    node_id="sim-0", state="up", simulated=True, cpu_milli=None, ram_bytes=None, gpus=["A"] * 4, workers=0
)
JOINED = REMEMBERED.model_copy(update={"gpus": ("B",), "last_seen_s": 7.0})


class _Programs:
    """A supervisor of programs that live; each look at their last word sees the next one."""

    def __init__(self, *words: str) -> None:
        self._words = [*words, ""]

    def start(self, _program: object) -> None:
        pass

    def death_of(self, _name: str) -> None:
        return None

    def last_word_of(self, _name: str) -> str:
        return self._words.pop(0) if len(self._words) > 1 else self._words[0]


class _Looks:
    """A client that answers each look at the nodes with the next list, and with the last one from then on."""

    def __init__(self, *looks: Sequence[NodeView]) -> None:
        self._looks: Iterator[Sequence[NodeView]] = iter(looks)
        self._last = looks[-1]

    def nodes(self) -> Sequence[NodeView]:
        return next(self._looks, self._last)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def cluster(tmp_path, monkeypatch, told) -> LocalCluster:
    monkeypatch.setattr(local_cluster, "POLL_S", 0.001)
    (tmp_path / "token").write_text("t")
    endpoint = {"url": "http://127.0.0.1:1", "token_file": str(tmp_path / "token")}
    (tmp_path / "endpoint.json").write_text(json.dumps(endpoint))
    settings = LocalSettings(tmp_path, [LocalNode("sim-0", "1xA100-SXM4-80GB")], "127.0.0.1:0")
    made = LocalCluster(settings, threading.Event(), told.append)
    made.supervisor = _Programs()
    return made


@pytest.mark.parametrize(("stands_s", "passed_on"), [(0.0, ["agent sim-0: stuck"]), (60.0, [])])
def test_the_last_word_of_who_is_waited_for_is_passed_on_once_if_it_stands(
    cluster, monkeypatch, told, stands_s, passed_on
):
    monkeypatch.setattr(local_cluster, "WORD_STANDS_S", stands_s)
    cluster.supervisor = _Programs("", "passing", *["stuck"] * 20)
    cluster.start_agents(_Looks(*[[REMEMBERED]] * 20, [JOINED]))
    assert told == passed_on


@pytest.mark.parametrize("before", [[], [REMEMBERED], [JOINED.model_copy(update={"state": "lost"})]])
def test_nodes_are_there_once_their_agents_have_joined(cluster, before):
    assert cluster.start_agents(_Looks(before, before, [JOINED])) == [JOINED]
