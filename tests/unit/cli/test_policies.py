"""What `cotenant policies` lists, and that the page of policies says the same."""

from __future__ import annotations

import json
import re
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from cli.policies import policy_rows
from cli.tables import NOTHING
from cotenant import plugins
from placement.interference import MODELS
from placement.policies import DEFAULT_POLICY, ORDERS, PLACEMENTS, Placement
from placement.policies.backfill import Backfill

PAGE = Path(__file__).parents[3] / "docs" / "policies.md"
ROWS = {row.policy: row for row in policy_rows()}


def test_every_policy_has_a_line_and_a_source():
    assert list(ROWS) == [*ORDERS, *PLACEMENTS]
    for name, row in ROWS.items():
        assert row.kind == ("order" if name in ORDERS else "placement")
        assert 20 < len(row.what) < 110, "one line"
        assert row.what.endswith(".")
        assert row.source
        assert row.source.partition(",")[0] not in row.what, "said once"
    assert [name for name, row in ROWS.items() if row.default] == [DEFAULT_POLICY]


@pytest.mark.parametrize("name", PLACEMENTS)
def test_the_page_names_the_same_source(name):
    (line,) = re.findall(rf"^\| `{name}` \|.*$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert re.search(rf"\| {re.escape(ROWS[name].source)}( \(|,| \|)", line)


def test_the_table(run):
    lines = run("policies").out.splitlines()
    assert lines[0].split() == ["POLICY", "KIND", "WHAT", "IT", "DOES", "SOURCE"]
    assert len(lines) == 1 + len(ORDERS) + len(PLACEMENTS)
    (gandiva,) = (line for line in lines if line.startswith("gandiva "))
    assert re.split(r" {2,}", gandiva) == [
        "gandiva",
        "placement",
        "A free GPU; where there is none, beside any one job, on trial.",
        "Gandiva, OSDI'18, section 3.3",
    ]
    assert [line.split()[:2] for line in lines if "(default)" in line] == [["cotenant", "(default)"]]
    assert "TENANT=" not in "".join(lines)
    assert f"{PLACEMENTS['hived'].options}" in run("policies", "-o", "wide").out


def test_as_json(run):
    listed = json.loads(run("policies", "-o", "json").out)
    assert listed[0] == {
        "policy": "fifo",
        "kind": "order",
        "what": "Strict order of submission: while the first does not fit, the others wait behind it.",
        "source": "textbook",
        "options": "",
        "default": False,
    }


def test_one_of_ones_own_needs_no_source(run, monkeypatch):
    class Mine(Backfill):
        """Mine (and nobody else's)."""

        source = ""

    monkeypatch.setitem(ORDERS, "mine", Mine)

    class Silent(Placement):
        name = "silent"

    monkeypatch.setitem(PLACEMENTS, "silent", partial(Silent))
    lines = run("policies").out.splitlines()
    told = {cells[0]: cells[1:] for cells in (re.split(r" {2,}", line) for line in lines)}
    assert told["mine"] == ["order", "Mine (and nobody else's).", NOTHING]
    assert told["silent"] == ["placement", NOTHING, NOTHING]


@pytest.fixture
def broken_plugins(monkeypatch):
    """Installed plug-ins of which none can be used; registries forget them."""
    entries = [
        EntryPoint("lost", "no_such_module:X", plugins.ORDERS),
        EntryPoint("fifo", "placement.policies:Srtf", plugins.ORDERS),
        EntryPoint("unmade", "placement.policies:Policy", plugins.PLACEMENTS),
        EntryPoint("lost-model", "no_such_module:X", plugins.INTERFERENCE_MODELS),
    ]
    before = [(registry, set(registry)) for registry in (ORDERS, PLACEMENTS, MODELS)]
    monkeypatch.setattr(plugins, "_loaded", set())
    monkeypatch.setattr(plugins, "refused", [])
    monkeypatch.setattr(plugins, "entry_points", lambda group: [e for e in entries if e.group == group])
    yield
    for registry, names in before:
        for name in set(registry) - names:
            del registry[name]


def test_broken_plugins_are_listed_with_the_reason(run, broken_plugins):
    answer = run("policies")
    assert (answer.status, answer.err) == (0, "")
    rows = [re.split(r" {2,}", line) for line in answer.out.splitlines()]
    broken = {(row[0], row[1]): row[2] for row in rows if row[2].startswith("broken: ")}
    lost, unmade, taken = (
        broken[key] for key in (("lost", "order"), ("unmade", "placement"), ("fifo", "order"))
    )
    assert "(no_such_module:X) cannot be loaded: ModuleNotFoundError" in lost
    assert "cannot be made: TypeError" in unmade
    assert "'fifo' is taken" in taken
    assert len(rows) == 1 + len(ROWS) + len(broken) == 1 + len(ROWS) + 3


@pytest.mark.parametrize("command", ["up", "simulate", "manager", "agent", "policies"])
def test_broken_plugins_stop_no_help(run, broken_plugins, command):
    answer = run(command, "--help")
    assert (answer.status, answer.err) == (0, "")
    if command != "policies":
        assert "lost-model (broken)" in answer.out


def test_broken_plugins_stop_who_asks_for_them(run, broken_plugins):
    for words in ("simulate --policy lost", "up --policy lost+spread", "simulate --truth lost-model"):
        answer = run(*words.split())
        assert (answer.status, answer.out) == (1, "")
        assert re.fullmatch(
            r"cotenant: plug-in 'lost.*' \(no_such_module:X\) cannot be loaded: .*\n", answer.err
        )
