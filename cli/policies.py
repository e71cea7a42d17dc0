"""`cotenant policies`: what may stand behind --policy, plug-ins included."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click

from cli.tables import Column, Listing, output_option, show


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One name: what it stands for in a line, where that comes from, and the options it takes."""

    policy: str
    kind: str
    what: str
    source: str
    options: str
    default: bool


@click.command(short_help="List the policies that can be chosen.")
@output_option
def policies(output: str) -> None:
    """List the policies: orders say who comes first, placements which of the places that fit is taken.

    --policy takes either, or ORDER+PLACEMENT.  An order alone places by best-fit, a placement alone takes the
    order backfill.

    \b
    Examples:
      cotenant policies
      cotenant policies -o wide      # with the options that some take
      cotenant policies -o json
    """  # noqa: D301 - click reads the backspace character
    columns: list[Column[PolicyRow]] = [
        Column("POLICY", lambda row: f"{row.policy} (default)" if row.default else row.policy),
        Column("KIND", lambda row: row.kind),
        Column("WHAT IT DOES", lambda row: row.what, flexible=True),
        Column("SOURCE", lambda row: row.source),
        Column("OPTIONS", lambda row: row.options, wide=True, flexible=True),
    ]
    show(Listing(columns, list(policy_rows()), asdict, "no policies"), output)


def policy_rows() -> Iterator[PolicyRow]:
    """All orders, then all placements; of plug-ins that cannot be used, why."""
    from cotenant import plugins
    from placement.model import CotenantError
    from placement.policies import DEFAULT_POLICY, ORDERS, PLACEMENTS, order_named, placement_named

    kinds = ("order", ORDERS, order_named), ("placement", PLACEMENTS, placement_named)
    for kind, known, named in kinds:
        for name in known:
            try:
                made = named(name)
            except CotenantError as error:
                yield PolicyRow(name, kind, f"broken: {error}", "", "", False)
                continue
            source = getattr(made, "source", "")
            what = _in_a_line(type(made).__doc__ or "", source)
            yield PolicyRow(name, kind, what, source, getattr(made, "options", ""), name == DEFAULT_POLICY)
    kind_of = {plugins.ORDERS: "order", plugins.PLACEMENTS: "placement"}
    for group, entry, reason in plugins.refused:
        if group in kind_of:
            yield PolicyRow(entry.name, kind_of[group], f"broken: {reason}", "", "", False)


def _in_a_line(docstring: str, source: str) -> str:
    """The first paragraph; a publication in brackets at its end has a column of its own."""
    text = " ".join(inspect.cleandoc(docstring).partition("\n\n")[0].split())
    return re.sub(rf" \({re.escape(source.partition(',')[0])}.*\)\.$", ".", text) if source else text
