"""Writes docs/lifecycle.md from the transition table in placement/lifecycle.py.

Usage: python docs/generate_lifecycle.py            (a test fails when the page and the table differ)
"""

from __future__ import annotations

import ast
import enum
import inspect
import itertools
from pathlib import Path

from placement import lifecycle
from placement.lifecycle import ENDED, HOLDING, TRANSITIONS, JobState, Move

PAGE = Path(__file__).with_name("lifecycle.md")

HEAD = """\
# The life of a job

<!-- Written by docs/generate_lifecycle.py from placement/lifecycle.py: change it there, then run that. -->

A job is in one state at a time, and only the moves below change it. Any other move is a mistake in the
program and raises `StateError` with the job's story. Each move is stored as an event in the transaction that
makes it, and shown by `cotenant status JOB`.

An *attempt* is one try to run all workers of a job. Attempts count from 1; a job that goes back to `queued`
after it was started (preempted, moved, lost with its node, or failed with retries left) gets the next number
when it is placed again.
"""

GANGS = """\
## Gangs

The workers of a job start together or not at all: all are placed in one decision. The job is `running` when
every worker has reported that it runs. When one worker fails, the others are told to stop, and the job ends
(or goes back to the queue) when all of them have exited.
"""

SENTENCES = {
    JobState.SUCCEEDED: "Every worker exited with status 0.",
    JobState.FAILED: "A worker failed, and no retry was left.",
    JobState.CANCELLED: "Somebody ended it.",
    JobState.REJECTED: "The nodes that are known could never hold it.",
    Move.PLACE: "Found room.",
    Move.START: "The preempted or moved jobs have left.",
    Move.RUN: "The last of its workers reported that it runs.",
    Move.STOP: "Cancelled, preempted, moved, out of time, or a worker of it failed.",
    Move.REQUEUE: "Preempted, lost with its node, or failed with a retry left.",
    Move.SUCCEED: "Every worker exited with status 0.",
    Move.FAIL: "All workers are gone, one of them failed.",
    Move.CANCEL: "Somebody ended it.",
    Move.REJECT: "Could never fit, or did not fit at once and would not wait.",
}
"""What the table's own file does not say."""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The page as the table stands now."""
    return "\n".join([HEAD, _diagram(), _states(), _moves(), GANGS])


def _diagram() -> str:
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> queued"]
    lines += [
        f"    {before.value} --> {after.value}: {move.value}" for (before, move), after in TRANSITIONS.items()
    ]
    lines += [f"    {state.value} --> [*]" for state in JobState if state in ENDED]
    return "\n".join([*lines, "```", ""])


def _states() -> str:
    said = _sentences(JobState)
    lines = ["## States", "", "| state | what it means | holds shares | ended |", "| --- | --- | --- | --- |"]
    for state in JobState:
        marks = f"{_tick(state in HOLDING)} | {_tick(state in ENDED)}"
        lines.append(f"| `{state.value}` | {said[state]} | {marks} |")
    return "\n".join([*lines, ""])


def _moves() -> str:
    said = _sentences(Move)
    lines = ["## Moves", "", "| in state | move | new state | why |", "| --- | --- | --- | --- |"]
    for (before, move), after in TRANSITIONS.items():
        lines.append(f"| `{before.value}` | {move.value} | `{after.value}` | {said[move]} |")
    return "\n".join([*lines, ""])


def _sentences(kind: type[enum.Enum]) -> dict[object, str]:
    """A sentence for each member: the text under it in the source, or the one above."""
    tree = ast.parse(inspect.getsource(lifecycle))
    body = next(
        node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    )
    found: dict[object, str] = {}
    for before, node in itertools.pairwise(body):
        if (
            isinstance(before, ast.Assign)
            and isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
        ):
            name = before.targets[0]
            if isinstance(name, ast.Name):
                found[kind[name.id]] = " ".join(str(node.value.value).split())
    return {**found, **{member: SENTENCES[member] for member in kind if member not in found}}


def _tick(yes: bool) -> str:
    return "yes" if yes else ""


if __name__ == "__main__":
    main()
