"""Kills managers and agents at random moments, many times, and checks that no job was lost or ran twice.

Prints a JSON summary; progress goes to standard error.  Every round is a fresh cluster with its own seed.
Finished rounds are kept in a state file, named on standard error; with ``--state`` a campaign that was cut
short goes on where it was.  Rounds of other source code are never counted among those of this.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.killing import CROWDED, Cluster, kill_round
from placement.model import InvalidInput

KILLS = 200
KILLS_PER_ROUND = 10
ROOT = Path(__file__).resolve().parent.parent
CODE = ("agent", "bench", "cli", "cotenant", "manager", "placement", "simulator")


@dataclass(frozen=True, slots=True)
class Round:
    """What one cluster went through."""

    seed: int
    kills: int
    killed: list[str]
    jobs: int
    moves: int
    """How often a job was moved to another place."""
    problems: list[str]
    wall_s: float
    source: str
    """Hash of the source code that was killed."""


def source_hash(root: Path = ROOT) -> str:
    """SHA-256 over the names and contents of all code under ``root`` that a cluster runs."""
    digest = hashlib.sha256()
    for folder in CODE:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                content = path.read_bytes()
                digest.update(f"{path.relative_to(root)}\0{len(content)}\0".encode())
                digest.update(content)
    return digest.hexdigest()


def play(seed: int, kills: int, folder: Path) -> Round:
    """One round; its folder is left behind only if something was wrong."""
    source = source_hash()
    begun_s = time.monotonic()
    root = Path(tempfile.mkdtemp(prefix=f"round-{seed}-", dir=folder))
    cluster = Cluster(root, nodes=CROWDED)
    try:
        cluster.start_all()
        killed = kill_round(cluster, seed, kills)
        try:
            found, moves = cluster.wait_for_end(), cluster.moves()
        except AssertionError as error:
            found, moves = [str(error)], 0
    finally:
        cluster.stop()
    if not found:
        shutil.rmtree(root, ignore_errors=True)
    wall_s = round(time.monotonic() - begun_s, 3)
    return Round(seed, kills, killed, len(cluster.accepted), moves, found, wall_s, source)


def finished(state: Path, source: str) -> dict[int, Round]:
    """The rounds in the state file, by seed; a torn line is one that did not finish.

    Raises:
        InvalidInput: there are rounds of other source code, which say nothing about this one.
    """
    rounds: dict[int, Round] = {}
    for line in state.read_text(encoding="utf-8").splitlines() if state.exists() else ():
        try:
            stored = json.loads(line)
        except ValueError:
            continue
        if not isinstance(stored, dict) or stored.get("source") != source:
            raise InvalidInput(f"{state}: holds rounds of other source code; choose another file for --state")
        rounds[stored["seed"]] = Round(**stored)
    return rounds


def _keep(state: Path, entry: Round) -> None:
    torn = state.exists() and state.read_bytes()[-1:] not in (b"", b"\n")
    with state.open("a", encoding="utf-8") as stream:
        stream.write(("\n" if torn else "") + json.dumps(asdict(entry)) + "\n")


def campaign(kills: int, seed: int, state: Path) -> list[Round]:
    """All rounds: those that the state file has, and the missing ones, which are added to it.

    Raises:
        InvalidInput: the state file holds rounds of other source code, or it was changed meanwhile.
    """
    state.parent.mkdir(parents=True, exist_ok=True)
    source = source_hash()
    known = finished(state, source)
    rounds = []
    for index, begun in enumerate(range(0, kills, KILLS_PER_ROUND)):
        wanted = min(KILLS_PER_ROUND, kills - begun)
        entry = known.get(seed + index)
        if entry is None or entry.kills != wanted:
            entry = play(seed + index, wanted, state.parent)
            if not source == entry.source == source_hash():
                raise InvalidInput("the source code was changed while it was tested; begin anew")
            _keep(state, entry)
        rounds.append(entry)
        sys.stderr.write(
            f"round {index + 1}: seed {entry.seed}, {entry.kills} kills, {entry.jobs} jobs, "
            f"{entry.moves} moves, {len(entry.problems)} problems, {entry.wall_s:.1f} s\n"
        )
    return rounds


def summary(rounds: list[Round]) -> dict[str, object]:
    """The figures of a campaign."""
    return {
        "kills": sum(entry.kills for entry in rounds),
        "processes_killed": sum(len(names.split("+")) for entry in rounds for names in entry.killed),
        "rounds": len(rounds),
        "jobs": sum(entry.jobs for entry in rounds),
        "moves": sum(entry.moves for entry in rounds),
        "problems": [f"seed {entry.seed}: {text}" for entry in rounds for text in entry.problems],
        "wall_s": round(sum(entry.wall_s for entry in rounds), 3),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; 1 if anything was wrong, 2 if it cannot go on from that state file."""
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
        metavar="FILE",
        help="go on from the finished rounds in this file (default: begin anew, in a new folder)",
    )
    given = parser.parse_args(arguments)
    state = given.state or Path(tempfile.mkdtemp(prefix="cotenant-campaign-")) / "rounds.jsonl"
    sys.stderr.write(f"finished rounds are kept in {state}\n")
    try:
        figures = summary(campaign(given.kills, given.seed, state))
    except InvalidInput as error:
        sys.stderr.write(f"campaign: {error}\n")
        return 2
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    return 1 if figures["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
