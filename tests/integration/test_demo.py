"""The demonstration, as `make demo` runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.demo_jobs import JOBS
from cli.sweep import end_processes_of, processes_of

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(180)]

COMMAND = [sys.executable, "-m", "cli.demo"]


def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(tmp_path), "COTENANT_ENDPOINT_FILE": str(tmp_path / "untouched.json")}


def test_the_demonstration_ends_well_and_leaves_nothing(tmp_path):
    picture = tmp_path / "demo.svg"
    done = subprocess.run(
        [*COMMAND, "--capture", str(picture)],
        capture_output=True,
        text=True,
        env=environment(tmp_path),
        timeout=150,
        check=False,
    )
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        last = done.stdout.splitlines()[-1]
        assert re.fullmatch(r"demo: \d+ s", last)
        assert int(last.split()[1]) <= 90
        results = done.stdout[done.stdout.index("PREDICTED") :]
        assert results.count("succeeded") == len(JOBS) - 1
        assert results.count("failed (3)") == 1
        for job in JOBS:
            assert f"\n{job.name} " in results
        for mode in ("exclusive", "mig 2g.20gb", "mps 45%", "timeslice 30%"):
            assert mode in results
        assert "unknown" in results  # the job without a profile
        assert picture.read_text().startswith("<svg")
        assert "font-face" not in picture.read_text()  # nothing is fetched from elsewhere
        assert [path.name for path in tmp_path.iterdir()] == ["demo.svg"]
        assert processes_of(tmp_path) == []
    finally:
        end_processes_of(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demonstration_leaves_nothing(tmp_path, number):
    demo = subprocess.Popen(
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(tmp_path)
    )
    try:
        assert demo.stdout is not None
        assert any("running" in line for line in demo.stdout)
        demo.send_signal(number)
        demo.stdout.read()
        assert demo.wait(60) == 128 + number
        assert list(tmp_path.iterdir()) == []
        assert processes_of(tmp_path) == []
    finally:
        demo.kill()
        demo.wait()
        end_processes_of(tmp_path)


def test_fourteen_jobs_of_three_tenants_in_every_mode():
    specs = [job.spec(Path("examples")) for job in JOBS]
    assert len(specs) >= 12
    assert len({spec.tenant for spec in specs}) == 3
    assert sum(job.exit_status != 0 for job in JOBS) == 1
    assert [spec.workers for spec in specs if spec.workers > 1] == [2]
    assert any(spec.request.mig_profile for spec in specs)
    modes = {mode.value for spec in specs if len(spec.request.modes) == 1 for mode in spec.request.modes}
    assert modes == {"exclusive", "mig", "mps", "timeslice"}
