"""What programs report, and what is read of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.attempt import parse_progress
from agent.progress_file import TAIL_BYTES, Progress, read_progress
from cotenant.progress import report_progress


@pytest.fixture
def progress_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "progress"
    monkeypatch.setenv("COTENANT_PROGRESS", str(path))
    return path


def test_a_report_is_one_line_with_step_and_time(progress_path: Path) -> None:
    report_progress(3, loss=0.25, accuracy=1)
    (line,) = progress_path.read_bytes().splitlines()
    parsed = parse_progress(line)
    assert parsed is not None
    assert parsed[0] == 3
    assert parsed[1] is not None
    assert line.endswith(b" loss=0.25 accuracy=1.0")


def test_outside_a_job_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COTENANT_PROGRESS", raising=False)
    monkeypatch.chdir(tmp_path)
    report_progress(1)
    assert list(tmp_path.iterdir()) == []


def test_a_negative_step_is_refused(progress_path: Path) -> None:
    with pytest.raises(ValueError, match="step: -1"):
        report_progress(-1)
    assert not progress_path.exists()


@pytest.mark.parametrize("path", ["/dev/full", "/no/such/folder/progress"])
def test_training_goes_on_when_reporting_fails(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTENANT_PROGRESS", path)
    report_progress(1)


def test_reporting_needs_the_standard_library_alone(tmp_path: Path) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import cotenant; cotenant.report_progress(7)"
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "COTENANT_PROGRESS": str(tmp_path / "progress")}
    subprocess.run([sys.executable, "-I", "-S", "-c", code, root], env=environment, check=True)
    assert (tmp_path / "progress").read_text().startswith("step=7 ")


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        (b"step=5 t=1.5", (5, 1.5)),
        (b"step=5", (5, None)),
        (b"step=5 loss=0.1 t=2", (5, 2.0)),
        (b"  step=5\t t=3.25 \r", (5, 3.25)),
        (b"step=5 t=now", (5, None)),
        (b"step=5 at=3", (5, None)),
        (b"step=12step=13 t=1", None),  # torn
        (b"step=-1", None),
        (b"step=1e3", None),
        (b"step=9999999999999999999", None),
        (b"tep=5", None),
        (b"", None),
        (b"\xff\xfe", None),
    ],
)
def test_lines_are_read_strictly(line: bytes, parsed: tuple[int, float | None] | None) -> None:
    assert parse_progress(line) == parsed


@pytest.mark.parametrize(
    ("content", "progress"),
    [
        ("", None),
        ("nonsense\n", None),
        ("step=1", None),  # not yet a whole line
        ("step=1\n", Progress(1, None)),
        ("step=1 t=10\nstep=11 t=12\n", Progress(11, 5.0)),
        ("step=1 t=10\nstep=11 t=12\nstep=2", Progress(11, 5.0)),
        ("step=1 t=10\nstep=11 t=10\n", Progress(11, None)),
        ("step=10 t=1\nstep=1 t=2\n", Progress(1, None)),  # it started again
        ("junk\nstep=1 t=0\nstep=3 t=1\njunk\n", Progress(3, 2.0)),
        ("".join(f"step={i} t={i / 4}\n" for i in range(1, 100_000)), Progress(99_999, 4.0)),
        ("step=1 t=0\n" + "x" * (2 * TAIL_BYTES) + "\nstep=9 t=2\n", Progress(9, 4.0)),
    ],
)
def test_progress_is_the_last_step_and_the_rate_since_the_first(
    tmp_path: Path, content: str, progress: Progress | None
) -> None:
    path = tmp_path / "progress"
    path.write_text(content)
    assert read_progress(path) == progress


def test_no_file_no_progress_and_nothing_but_a_file_is_read(tmp_path: Path) -> None:
    assert read_progress(tmp_path / "missing") is None
    os.mkfifo(tmp_path / "pipe")
    assert read_progress(tmp_path / "pipe") is None
    (tmp_path / "real").write_text("step=1\n")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert read_progress(tmp_path / "link") is None
    assert read_progress(tmp_path) is None
