"""Values of the core as text and back, exactly: a float that is read again is the same float."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from placement.lifecycle import JobRecord
from placement.model import (
    Assignment,
    Event,
    JobCancelled,
    JobSubmitted,
    Node,
    NodeFenced,
    NodeJoined,
    NodeLost,
    OperationFailed,
    Profile,
    ProfileDefined,
    SpeedObserved,
    WorkerExited,
    WorkerStarted,
)

RECORD = TypeAdapter(JobRecord)
NODE = TypeAdapter(Node)
PROFILE = TypeAdapter(Profile)
ASSIGNMENT = TypeAdapter(Assignment)
ASSIGNMENTS = TypeAdapter(tuple[Assignment, ...])

_EVENTS: dict[str, TypeAdapter[Any]] = {
    kind.__name__: TypeAdapter(kind)
    for kind in (
        NodeJoined,
        NodeLost,
        NodeFenced,
        ProfileDefined,
        JobSubmitted,
        JobCancelled,
        WorkerStarted,
        WorkerExited,
        SpeedObserved,
    )
}


def encode(adapter: TypeAdapter[Any], value: object) -> str:
    """The value as JSON text."""
    return adapter.dump_json(value).decode()


def encode_event(event: Event) -> tuple[str, str]:
    """Kind and body of an event."""
    kind = type(event).__name__
    return kind, encode(_EVENTS[kind], event)


def decode_event(kind: str, body: str) -> Event:
    """The event of that kind and body.

    Raises:
        OperationFailed: the store holds something that this version cannot read.
    """
    adapter = _EVENTS.get(kind)
    if adapter is None:
        raise OperationFailed(
            f"the store holds an event of unknown kind {kind!r}; was it written by a newer version?"
        )
    try:
        event: Event = adapter.validate_json(body)
    except ValidationError as error:
        raise OperationFailed(f"the store holds a broken {kind}: {error.errors()[0]['msg']}") from error
    return event
