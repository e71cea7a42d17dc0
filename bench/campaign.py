"""Kills managers and agents at random moments, many times, and checks that no job was lost or ran twice.

Prints a JSON summary; progress goes to standard error.  Every round is a fresh cluster with its own seed.
Finished rounds are kept in a state file, so a campaign that was cut short goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.killing import Cluster, kill_round

KILLS = 200
KILLS_PER_ROUND = 10


@dataclass(frozen=True, slots=True)
class Round:
    """What one cluster went through."""

    seed: int
    kills: int
    killed: list[str]
    jobs: int
    problems: list[str]
    wall_s: float


def play(seed: int, kills: int, folder: Path) -> Round:
    """One round; its folder is left behind only if something was wrong."""
    begun_s = time.monotonic()
    root = Path(tempfile.mkdtemp(prefix=f"round-{seed}-", dir=folder))
    cluster = Cluster(root)
    try:
        cluster.start_all()
        killed = kill_round(cluster, seed, kills)
        try:
            found = cluster.wait_for_end()
        except AssertionError as error:
            found = [str(error)]
    finally:
        cluster.stop()
    if not found:
        shutil.rmtree(root, ignore_errors=True)
    return Round(seed, kills, killed, len(cluster.accepted), found, round(time.monotonic() - begun_s, 3))


def finished(state: Path) -> dict[int, Round]:
    """The rounds in the state file, by seed; a torn last line is one that did not finish."""
    rounds: dict[int, Round] = {}
    if state.exists():
        for line in state.read_text(encoding="utf-8").splitlines():
            try:
                entry = Round(**json.loads(line))
            except (ValueError, TypeError):
                continue
            rounds[entry.seed] = entry
    return rounds


def campaign(kills: int, seed: int, state: Path) -> list[Round]:
    """All rounds: those that the state file has, and the missing ones, which are added to it."""
    state.parent.mkdir(parents=True, exist_ok=True)
    known = finished(state)
    rounds = []
    for index, begun in enumerate(range(0, kills, KILLS_PER_ROUND)):
        wanted = min(KILLS_PER_ROUND, kills - begun)
        entry = known.get(seed + index)
        if entry is None or entry.kills != wanted:
            entry = play(seed + index, wanted, state.parent)
            with state.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(asdict(entry)) + "\n")
        rounds.append(entry)
        sys.stderr.write(
            f"round {index + 1}: seed {entry.seed}, {entry.kills} kills, {entry.jobs} jobs, "
            f"{len(entry.problems)} problems, {entry.wall_s:.1f} s\n"
        )
    return rounds


def summary(rounds: list[Round]) -> dict[str, object]:
    """The figures of a campaign."""
    return {
        "kills": sum(entry.kills for entry in rounds),
        "processes_killed": sum(len(names.split("+")) for entry in rounds for names in entry.killed),
        "rounds": len(rounds),
        "jobs": sum(entry.jobs for entry in rounds),
        "problems": [f"seed {entry.seed}: {text}" for entry in rounds for text in entry.problems],
        "wall_s": round(sum(entry.wall_s for entry in rounds), 3),
    }


def main() -> int:
    """Run the campaign; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.campaign", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--kills", type=int, default=KILLS, help="how many random moments (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the first round (default: %(default)s)")
    parser.add_argument(
        "--state",
        type=Path,
        default=Path(tempfile.gettempdir()) / "cotenant-campaign" / "rounds.jsonl",
        help="finished rounds; remove it to begin anew (default: %(default)s)",
    )
    given = parser.parse_args()
    figures = summary(campaign(given.kills, given.seed, given.state))
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    return 1 if figures["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
