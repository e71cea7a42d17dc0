"""The pages say what the code does."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


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


def test_the_example_job_file_is_a_job():
    from cli.job_file import profile_or_name, read_job_file
    from cli.job_options import job_spec_of

    wishes = read_job_file(ROOT / "examples" / "job.yaml")
    name, profile = profile_or_name(wishes.profile or "")
    assert profile is not None
    assert name == "resnet50"
    assert job_spec_of(replace(wishes, profile=name)).request.compute_milli == 300
