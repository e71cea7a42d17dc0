"""The pages say what the code does."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import click
import pytest

from cli.main import cli
from placement.report import Metrics

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(page for folder in ("docs", "examples", "helm") for page in ROOT.glob(f"{folder}/**/*.md")),
    ]
)


def test_the_page_of_a_jobs_life_is_that_of_the_transition_table():
    spec = importlib.util.spec_from_file_location(
        "generate_lifecycle", ROOT / "docs" / "generate_lifecycle.py"
    )
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    written = (ROOT / "docs" / "lifecycle.md").read_text(encoding="utf-8")
    assert written == generator.page(), "run: python docs/generate_lifecycle.py"


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), target


def test_commands_of_the_guide_are_commands():
    from cli.main import COMMANDS

    for page in (ROOT / "README.md", ROOT / "docs" / "cli.md"):
        named = re.findall(r"^    cotenant ([a-z]+)", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert named
        assert set(named) <= set(COMMANDS)


OPTIONS_OF = ("submit", "simulate", "up", "manager")


@pytest.mark.parametrize("name", OPTIONS_OF)
def test_the_guide_knows_every_option(name):
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    options = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]
    # Those of every command are told once; a switch is shown by the word that turns it off.
    shown = [option for option in options if option not in ("--output", "--help", "--preemptible")]
    assert [option for option in shown if not re.search(rf"{option}\b", page)] == []


def test_the_guide_defines_every_figure():
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page[page.index("| figure |") :], flags=re.MULTILINE)
    defined = [name for row in rows for name in re.findall(r"`([a-z0-9_]+)`", row)]
    assert defined == [field.name for field in fields(Metrics)]


def test_the_page_of_policies_describes_each_once():
    from placement.policies import ORDERS, PLACEMENTS

    page = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    described = re.findall(r"^\| `([a-z-]+)` \|", page, flags=re.MULTILINE)
    assert described == [*ORDERS, *PLACEMENTS]


def run_python(folder: Path, program: str) -> list[str]:
    """What a program prints that runs by itself in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == 0, f"{done.stderr}\n{program}"
    return done.stdout.splitlines()


def test_the_python_of_the_readme_runs(tmp_path):
    simulation, policy = re.findall(
        r"^```python\n(.*?)^```$",
        (ROOT / "README.md").read_text(encoding="utf-8"),
        flags=re.DOTALL | re.MULTILINE,
    )
    # Two jobs that need the whole cluster, one after the other: 10 s and 10 + 20 s; a small one at the end.
    lines = ["job_id,submit_s,duration_s,gpus,workers", "a,0,10,8,64", "b,0,20,8,64", "c,0,20,1,1"]
    (tmp_path / "jobs.csv").write_text("\n".join(lines) + "\n")
    (said,) = run_python(tmp_path, simulation)
    jct_s, allocated = map(float, said.split())
    assert jct_s == pytest.approx((10 + 30 + 50) / 3)
    assert 0 < allocated <= 1
    used = "cotenant.simulate('jobs.csv', cluster='64x8xV100-SXM2-32GB', policy='fewest-gpus')"
    (said,) = run_python(tmp_path, f"{policy}\nprint({used}.metrics.avg_jct_s)")
    assert float(said) == pytest.approx((20 + 30 + 50) / 3)


def test_what_the_readme_submits_fits_its_own_cluster(monkeypatch):
    """Each job is placed on the nodes that it starts, and its command is one that every machine has."""
    from click.testing import CliRunner

    from manager.wire.models import JobSpec

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^    cotenant submit (.*)$", text, flags=re.MULTILINE)
    (shape,) = re.findall(r"cotenant up --simulate (\S+)", text)
    specs: list[JobSpec] = []

    def stop(spec, _profile):
        specs.append(spec)
        raise SystemExit(0)

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("cli.submit.connect_in_time", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr("cli.submit._submitted", lambda _client, spec, profile: stop(spec, profile))
    for line in lines:
        CliRunner().invoke(cli, ["submit", *shlex.split(line)])
    assert len(specs) == len(lines) >= 4
    assert all(shutil.which(spec.command[0]) for spec in specs)
    gpus = int(shape.partition("x")[0])
    assert all(spec.workers * spec.request.gpus <= gpus for spec in specs)


def test_the_example_job_file_is_a_job():
    from cli.job_file import profile_or_name, read_job_file
    from cli.job_options import job_spec_of

    wishes = read_job_file(ROOT / "examples" / "job.yaml")
    name, profile = profile_or_name(wishes.profile or "")
    assert profile is not None
    assert name == "resnet50"
    assert job_spec_of(replace(wishes, profile=name)).request.compute_milli == 300
