"""The front: fast to start, helpful everywhere, and never a traceback."""

from __future__ import annotations

import importlib.util
import inspect
import os
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

import cotenant
from agent.main import AgentSettings
from cli import failures
from cli.main import COMMANDS, cli, main
from manager.loop import CoreSettings
from manager.settings import ManagerSettings
from placement.policies import DEFAULT_POLICY, policy_named
from simulator.study import StudySpec
from simulator.synthetic import SyntheticSpec

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ROOT = Path(__file__).parents[3]
OTHERS = {"agent", "manager", "placement", "simulator"}
HEAVY = {
    "agent",
    "fastapi",
    "httpx",
    "manager",
    "numpy",
    "placement",
    "pydantic",
    "rich",
    "simulator",
    "sqlalchemy",
    "yaml",
}


def loaded_after(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after a statement."""
    code = f"{statement}\nimport sys\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_starting_a_command_line_imports_nothing_heavy():
    assert not loaded_after("import cli.main") & HEAVY


def test_commands_import_nothing_of_the_other_packages_but_the_wire_when_they_are_loaded():
    code = "import glob, importlib\nfor path in glob.glob('cli/*.py'):\n"
    code += "    importlib.import_module(path[:-3].replace('/', '.').removesuffix('.__init__'))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    loaded = done.stdout.split()
    assert "cli.up" in loaded
    assert [name for name in loaded if name.partition(".")[0] in OTHERS] == []


def test_modules_that_commands_may_not_import_first_thing_exist():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    banned = settings["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-module-level-imports"]
    ours = [name for name in banned if name.partition(".")[0] in OTHERS]
    assert len(ours) > len(OTHERS)
    assert [name for name in ours if importlib.util.find_spec(name) is None] == []
    assert not any(name.startswith("manager.wire") for name in ours)


def test_the_help_of_the_program_imports_nothing_heavy():
    assert not loaded_after("import cli.main\nassert cli.main.main(['--help']) == 0") & HEAVY


@pytest.mark.parametrize("name", [*sorted(COMMANDS), "trace generate"])
def test_help_of_a_command_has_examples_and_needs_no_manager(run, name):
    answer = run(*name.split(), "--help")
    assert (answer.status, answer.err) == (0, "")
    assert "\n  Examples:\n" in answer.out
    examples = answer.out.partition("  Examples:\n")[2].partition("\n\n")[0].splitlines()
    assert any(line.startswith(f"    cotenant {name}") for line in examples), "not one a line, or none"
    assert "\b" not in answer.out
    assert "\\b" not in answer.out


@pytest.mark.parametrize("name", ["status", "logs", "cancel", "why"])
def test_ids_in_examples_look_like_those_that_the_manager_gives(run, name):
    assert "job-1" in run(name, "--help").out


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_table_of_commands_says_what_the_command_says(name):
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    assert command.get_short_help_str(200).rstrip(".") == COMMANDS[name].summary.rstrip(".")


def test_no_command_shows_the_help(run):
    answer = run()
    assert answer.status == 0
    assert "Commands:" in answer.out


def _arguments(command: click.Command) -> set[str]:
    return {parameter.name for parameter in command.params if parameter.name is not None}


def _fields(kind: type[DataclassInstance]) -> set[str]:
    return {field.name for field in fields(kind)}


def test_options_that_are_handed_on_are_settings_of_that_name():
    from cli.agent import agent
    from cli.manager import manager
    from cli.simulate import simulate
    from cli.trace import generate

    assert _arguments(simulate) - {"output"} == _fields(StudySpec)
    assert _arguments(generate) - {"file", "arrivals"} <= _fields(SyntheticSpec)
    assert _arguments(manager) - {"lease", "fence"} <= _fields(ManagerSettings)
    assert _arguments(agent) <= _fields(AgentSettings)


def _default_policy(command: click.Command) -> str:
    (default,) = {
        parameter.default if isinstance(parameter.default, str) else ",".join(parameter.default)
        for parameter in command.params
        if parameter.name in ("policy", "policies")
    }
    return default


def test_who_names_no_policy_gets_the_same_one_everywhere(tmp_path):
    from cli.demo import demo
    from cli.manager import manager
    from cli.simulate import simulate

    assert [_default_policy(command) for command in (manager, simulate, demo)] == [DEFAULT_POLICY] * 3
    assert CoreSettings().policy == ManagerSettings(tmp_path).policy == DEFAULT_POLICY
    assert inspect.signature(cotenant.simulate).parameters["policy"].default == DEFAULT_POLICY
    assert policy_named(DEFAULT_POLICY).name == "cotenant"


@pytest.mark.parametrize(
    ("line", "url"),
    [
        ("queue --manager http://a:1", "http://a:1"),
        ("--manager http://a:1 queue", "http://a:1"),
        ("--manager http://a:1 queue --manager http://b:2", "http://b:2"),
        ("--manager http://a:1 submit -- x --manager http://b:2", "http://a:1"),
        ("queue", "http://127.0.0.1:7077"),
    ],
)
def test_the_manager_may_be_named_before_the_command(manager, run, line, url):
    assert run(*line.split()).status == 0
    assert [connected for connected, _ in manager.connected] == [url]


@pytest.mark.parametrize("name", ["up", "simulate", "trace", "manager", "completion"])
def test_a_command_that_asks_no_manager_takes_none(run, name):
    answer = run("--manager", "http://a:1", name, "--help")
    assert (answer.status, answer.out) == (2, "")
    assert (
        answer.err
        == f"cotenant: 'cotenant {name}' asks no manager; leave out --manager; see 'cotenant --help'\n"
    )


def test_version(run):
    answer = run("--version")
    assert answer.status == 0
    assert answer.out.startswith("cotenant ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(run, shell):
    answer = run("completion", shell)
    assert answer.status == 0
    assert f"{shell}_complete" in answer.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("cotenant su", "submit"),
        ("cotenant submit --mode t", "timeslice"),
        ("cotenant queue --st", "--state"),
    ],
)
def test_completion_offers(monkeypatch, capsys, words, expected):
    monkeypatch.setenv("_COTENANT_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert main([]) == 0
    assert expected in capsys.readouterr().out


def _status_of(error: BaseException) -> int:
    """What comes of a command that raises this."""

    def fail() -> None:
        raise error

    try:
        click.Command("fail", callback=fail).main([], prog_name="fail", standalone_mode=False)
    except BaseException as raised:
        return failures.exit_status_of(raised)
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (
            ValueError("odd\nvalue"),
            1,
            "cotenant: internal error: ValueError: odd value (set COTENANT_DEBUG=1 to see where)\n",
        ),
        (OSError(28, "No space left on device", "/x"), 1, "cotenant: No space left on device: /x\n"),
        (click.ClickException("no"), 1, "cotenant: no\n"),
        (click.UsageError("bad"), 2, "cotenant: bad; see 'fail --help'\n"),
        (SystemExit(4), 4, ""),
        (SystemExit("words"), 1, "cotenant: words\n"),
        (failures.ReaderGone(), 141, ""),
        (KeyboardInterrupt(), 130, "\n"),  # ends the line that shows ^C
    ],
)
def test_every_error_is_at_most_one_line(capsys, monkeypatch, error, status, line):
    monkeypatch.delenv("COTENANT_DEBUG", raising=False)
    monkeypatch.setattr(failures, "_silence_stdout", lambda: None)
    assert _status_of(error) == status
    assert capsys.readouterr().err == line


def test_debugging_shows_where(capsys, monkeypatch):
    monkeypatch.setenv("COTENANT_DEBUG", "1")
    assert failures.exit_status_of(ValueError("odd")) == 1
    assert "ValueError: odd" in capsys.readouterr().err


def test_a_reader_that_goes_away_leaves_no_trace():
    """The reader is gone before the first word: the pipe has no reading end."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as broken:
        done = subprocess.run(
            [sys.executable, "-m", "cli", "completion", "bash"],
            stdout=broken,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_words_of_the_core_are_repeated_faithfully():
    from cli import queue, submit
    from placement.lifecycle import JobState
    from placement.model import Devices, Isolation, JobKind, Mode

    assert list(queue.STATES) == [state.value for state in JobState]
    assert set(submit.MODES) == {"any", *(mode.value for mode in Mode)}
    assert set(submit.ISOLATIONS) == {isolation.value for isolation in Isolation}
    assert set(submit.DEVICES) == {devices.value for devices in Devices}
    assert set(submit.KINDS) == {kind.value for kind in JobKind}


@pytest.mark.parametrize(("redirection", "status"), [(">&-", 0), (">/dev/full", 1), ("2>&-", 0)])
def test_closed_and_full_outputs(redirection, status):
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m cli completion bash {redirection}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    assert done.stderr == ("cotenant: No space left on device\n" if status else "")
