"""What a user says about a job, checked here before anybody is asked over the network.

The command line and a job file say the same things under the same names: both become :class:`JobWishes`,
the text as it was written, and :func:`job_spec_of` turns that into a submission or says what is wrong.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import enum

    from pydantic import ValidationError

    from manager.wire.models import JobSpec
    from placement.model import Request, Together

_MIG_PROFILE = re.compile(r"[1-9][0-9]?g\.[1-9][0-9]{0,2}gb(\+[a-z0-9.]+)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_OWN_VARIABLES = "COTENANT_"


@dataclass(frozen=True, slots=True)
class JobWishes:
    """Each wish as text, None where nothing was said; lists may be empty."""

    command: tuple[str, ...] = ()
    name: str | None = None
    tenant: str | None = None
    gpus: str | None = None
    gpu_model: tuple[str, ...] = ()
    memory: str | None = None
    compute: str | None = None
    mode: tuple[str, ...] = ()
    mig_profile: str | None = None
    isolation: str | None = None
    devices: str | None = None
    together: str | None = None
    workers: str | None = None
    kind: str | None = None
    max_slowdown: str | None = None
    priority: str | None = None
    preemptible: bool | None = None
    retries: str | None = None
    time_limit: str | None = None
    duration: str | None = None
    grace: str | None = None
    profile: str | None = None
    cpu: str | None = None
    ram: str | None = None
    workdir: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)

    def over(self, base: JobWishes) -> JobWishes:
        """These wishes where something was said, the base's elsewhere; variables are merged."""
        names = [field.name for field in fields(self)]
        said = {name: getattr(self, name) for name in names if getattr(self, name) not in (None, (), {})}
        rest = {name: getattr(base, name) for name in names}
        return JobWishes(**{**rest, **said, "env": {**base.env, **self.env}})


def job_spec_of(wishes: JobWishes) -> JobSpec:
    """The submission that these wishes ask for.

    Raises:
        InvalidInput: what is wrong, in one line that names the option.
    """
    from pydantic import ValidationError

    from manager.wire.models import JobSpec, RequestSpec
    from placement.model import InvalidSpec, Job, JobKind, parse_seconds

    if not wishes.command:
        raise InvalidSpec("no command; write it after --: cotenant submit --gpus 1 -- python train.py")
    wanted = {
        "name": wishes.name,
        "tenant": identifier("tenant", wishes.tenant),
        "workers": _whole("workers", wishes.workers),
        "kind": _member("kind", JobKind, wishes.kind),
        "priority": _whole("priority", wishes.priority),
        "preemptible": wishes.preemptible,
        "retries": _whole("retries", wishes.retries),
        "time_limit_s": None if wishes.time_limit is None else parse_seconds(wishes.time_limit, "time limit"),
        "duration_s": None if wishes.duration is None else parse_seconds(wishes.duration, "duration"),
        "grace_s": None if wishes.grace is None else parse_seconds(wishes.grace, "grace"),
        "profile": identifier("profile", wishes.profile),
    }
    said = {name: value for name, value in wanted.items() if value is not None}
    # The core's own rules first: what it would refuse is refused here, in its words, before anything is sent.
    request = _request_of(wishes)
    Job(job_id="check", request=request, submit_s=0.0, sequence=0, **said)
    process = {"command": list(wishes.command), "env": environment_of(wishes.env), "workdir": wishes.workdir}
    try:
        return JobSpec.model_validate({**said, **process, "request": RequestSpec.of(request).model_dump()})
    except ValidationError as error:
        raise InvalidSpec(first_complaint(error)) from error


def first_complaint(error: ValidationError) -> str:
    """The first complaint of a pydantic ValidationError, on one line: where and what."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    what = first["msg"].removeprefix("Value error, ")
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{where}: {what}{more}" if where else f"{what}{more}"


def variables_of(pairs: Sequence[str]) -> dict[str, str]:
    """The variables of ``K=V`` pairs; ``K`` alone takes the value that it has here.

    Raises:
        InvalidSpec: a variable that is not set here.
    """
    from placement.model import InvalidSpec

    variables = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals and name not in os.environ:
            raise InvalidSpec(f"env: {name!r} is not set here; write NAME=VALUE")
        variables[name] = value if equals else os.environ[name]
    return variables


def environment_of(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables, their names checked.

    Raises:
        InvalidSpec: not a name, or a name that belongs to cotenant.
    """
    from manager.wire.fields import VariableName
    from placement.model import InvalidSpec

    for name in variables:
        if not _reads_as(VariableName, name):
            raise InvalidSpec(f"env: {name!r} is not the name of a variable; write NAME=VALUE")
        if name.startswith(_OWN_VARIABLES):
            raise InvalidSpec(f"env: {name} is set by cotenant itself; choose another name")
    return dict(variables)


def _request_of(wishes: JobWishes) -> Request:
    from manager.wire.fields import ModelName
    from placement.model import (
        ANY_MODE,
        Devices,
        InvalidSpec,
        Isolation,
        Mode,
        Request,
        parse_bytes,
        parse_compute,
    )

    modes = [_member("mode", Mode, word) for word in wishes.mode if word != "any"]
    if "any" in wishes.mode and modes:
        raise InvalidSpec("mode: 'any' accepts every mode; leave it out, or leave the others out")
    if wishes.mig_profile is not None and not _MIG_PROFILE.fullmatch(wishes.mig_profile):
        raise InvalidSpec(f"mig profile: {wishes.mig_profile!r} is no profile; write one such as 1g.10gb")
    if wishes.mig_profile is not None and not wishes.mode:
        modes = [Mode.MIG]
    for model in wishes.gpu_model:
        if not _reads_as(ModelName, model):
            raise InvalidSpec(f"gpu model: {model!r} is no model; write one such as A100 or H100-SXM5-80GB")
    gpus = _whole("gpus", wishes.gpus)
    return Request(
        gpus=1 if gpus is None else gpus,
        memory_bytes=None if wishes.memory is None else parse_bytes(wishes.memory),
        compute_milli=None if wishes.compute is None else parse_compute(wishes.compute),
        gpu_models=wishes.gpu_model,
        modes=frozenset(modes) or ANY_MODE,
        mig_profile=wishes.mig_profile,
        isolation=_member("isolation", Isolation, wishes.isolation) or Isolation.NONE,
        max_slowdown=_number("max slowdown", wishes.max_slowdown),
        cpu_milli=0 if wishes.cpu is None else _cpu_milli(wishes.cpu),
        ram_bytes=0 if wishes.ram is None else parse_bytes(wishes.ram, "ram"),
        devices=_member("devices", Devices, wishes.devices) or Devices.DISTINCT,
        together=None if wishes.together is None else together_of(wishes.together),
    )


def together_of(text: str) -> Together:
    """The wish that ``rack``, or ``rack,required``, states.

    Raises:
        InvalidInput: no such level, or another word than ``required`` after it.
    """
    from placement.model import InvalidSpec, Level, Together

    level, comma, rest = (part.strip() for part in text.partition(","))
    if comma and rest != "required":
        raise InvalidSpec(f"together: {rest!r} after the comma must be 'required', as in {level},required")
    return Together(_member("together", Level, level), required=bool(comma))


def _cpu_milli(text: str) -> int:
    """Thousandths of a CPU from ``4``, ``0.5`` or ``500m``."""
    from placement.model import InvalidAmount

    number = _number("cpu", text.removesuffix("m"))
    if number is None or not 0 <= number < 1e9:
        raise InvalidAmount(f"cpu: {text!r} is out of range; write a number of CPUs such as 4, 0.5 or 500m")
    return round(number if text.endswith("m") else number * 1000)


def _number(what: str, text: str | None) -> float | None:
    from placement.model import InvalidAmount

    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidAmount(f"{what}: {text!r} is not a number; write one such as 1.2")
    return value


def _whole(what: str, text: str | None) -> int | None:
    from placement.model import InvalidAmount

    if text is None:
        return None
    if not _WHOLE.fullmatch(text):
        raise InvalidAmount(f"{what}: {text!r} is not a whole number")
    return int(text)


def identifier(what: str, text: str | None) -> str | None:
    """The text, if it may be the name of a tenant, a profile or a node.

    Raises:
        InvalidSpec: it may not.
    """
    from manager.wire.fields import Identifier
    from placement.model import InvalidSpec

    if text is not None and not _reads_as(Identifier, text):
        raise InvalidSpec(f"{what}: {text!r} must be 1 to 63 letters, digits, dots, dashes or underscores")
    return text


def _reads_as(kind: Any, text: str) -> bool:
    """Whether the manager takes the text as a value of that kind."""
    from pydantic import TypeAdapter, ValidationError

    try:
        TypeAdapter(kind).validate_python(text)
    except ValidationError:
        return False
    return True


def _member(what: str, kinds: type[enum.Enum], text: str | None) -> Any:
    from placement.model import UnknownName

    if text is None:
        return None
    for member in kinds:
        if member.value == text:
            return member
    known = ", ".join(str(member.value) for member in kinds)
    raise UnknownName(f"{what}: {text!r} is unknown; choose one of {known}")
