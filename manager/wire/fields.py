"""Field types that hostile input has to pass: bounded, finite, without NUL."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from placement.model.amounts import MAX_BYTES

MAX_TEXT = 4096
MAX_ARGUMENT = 131_072
MAX_SEQUENCE = 1 << 62
MAX_TIME_S = 1e12
MAX_UNKNOWN_FIELDS = 16
"""So many are complained of by name; more are refused as a whole."""
IDENTIFIER = r"^[A-Za-z0-9._-]{1,63}$"


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain a NUL character")
    return text


class Shape(BaseModel):
    """Base of everything on the wire: unknown fields are refused, instances are values."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Body(Shape):
    """Base of what is sent to the manager: however much of it is wrong, few errors are made of it.

    Millions of errors in one body would keep the manager busy for minutes.  Besides this, lists are declared
    with ``fail_fast`` and mappings as :func:`at_most`.
    """

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, data: Any) -> Any:
        if isinstance(data, dict) and len(data) > len(cls.model_fields) + MAX_UNKNOWN_FIELDS:
            raise ValueError(f"{len(data)} fields are too many; remove those that do not exist")
        return data


def at_most(limit: int) -> WrapValidator:
    """A limit on the entries of a mapping that is checked before any of them."""

    def checked(value: Any, inner: ValidatorFunctionWrapHandler) -> Any:
        if isinstance(value, dict) and len(value) > limit:
            raise ValueError(f"{len(value)} entries are too many; at most {limit} fit")
        return inner(value)

    return WrapValidator(checked)


Identifier = Annotated[str, StringConstraints(pattern=IDENTIFIER, strict=True)]
"""Ids of jobs and nodes, names of tenants and profiles."""
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT, strict=True), AfterValidator(_without_nul)]
Argument = Annotated[
    str, StringConstraints(max_length=MAX_ARGUMENT, strict=True), AfterValidator(_without_nul)
]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,254}$", strict=True)]
GpuUuid = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:/-]{1,127}$", strict=True)]
ModelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+()/-]{0,126}$", strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0, le=MAX_SEQUENCE)]
Amount = Annotated[int, Field(strict=True, ge=0, le=MAX_BYTES)]
Milli = Annotated[int, Field(strict=True, ge=0, le=1000)]
Seconds = Annotated[float, Field(strict=True, ge=0, le=MAX_TIME_S, allow_inf_nan=False)]
Rate = Annotated[float, Field(strict=True, ge=0, le=1e15, allow_inf_nan=False)]
Slowdown = Annotated[float, Field(strict=True, ge=0, le=1e9, allow_inf_nan=False)]
