"""Commands whose help ends with the names that their options take, plug-ins included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click


class NamingCommand(click.Command):
    """A command that lists the policies, models, formats and GPU models that it knows, in its help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names, then what else the help ends with."""
        with formatter.section("Names"):
            formatter.write_dl(list(_names({parameter.name for parameter in self.params})))
        super().format_epilog(ctx, formatter)


class NamingGroup(NamingCommand, click.Group):
    """The same for a command that has commands below it."""


def one_policy(_context: click.Context, _parameter: click.Parameter, names: tuple[str, ...]) -> str | None:
    """The policy of an option that `simulate` repeats to compare, and that a manager can have only once."""
    if len(names) > 1:
        raise click.BadParameter(
            f"given {len(names)} times, but one policy decides; combine as ORDER+PLACEMENT"
        )
    return names[0] if names else None


def _names(options: set[str | None]) -> Iterator[tuple[str, str]]:
    """What a name stands for, and the names, for each kind of name that one of the options takes."""
    from placement.interference import MODELS
    from placement.model.hardware import known_gpu_models
    from placement.policies import ORDERS, PLACEMENTS

    if options & {"policy", "policies"}:
        yield "orders", _listed(ORDERS)
        yield "placements", f"{_listed(PLACEMENTS)}; a policy is either, or ORDER+PLACEMENT"
        taken = {name: getattr(build, "options", "") for name, build in PLACEMENTS.items()}
        yield "options", "; ".join(f"{name}:{text}" for name, text in taken.items() if text)
    if options & {"truth", "belief"}:
        yield "models", _listed(MODELS)
    if "trace_format" in options:
        from simulator.traces import FORMATS

        yield "formats", ", ".join(form.name for form in FORMATS)
    if options & {"cluster", "simulated", "simulate"}:
        yield "GPU models", ", ".join(known_gpu_models())


def _listed(known: Mapping[str, object]) -> str:
    """The names; a plug-in that cannot be loaded is said to be broken."""
    from cotenant.plugins import Broken

    return ", ".join(
        f"{name} (broken)" if isinstance(build, Broken) else name for name, build in known.items()
    )
