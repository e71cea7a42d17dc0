"""The command `cotenant`: a table of commands, each imported only when it is asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
from click.shell_completion import CompletionItem

from cli.connection import MANAGER_URL, manager_option
from cli.failures import ReaderGone, exit_status_of

PROGRAM = "cotenant"


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command lives, and the line that stands for it in the list of commands."""

    module: str
    attribute: str
    summary: str
    plugins: bool = False
    """Whether it takes names of policies and models, so that plug-ins are loaded before it runs."""


COMMANDS = {
    "up": Entry("cli.up", "up", "Start a manager and a local agent, and keep them running.", plugins=True),
    "submit": Entry("cli.submit", "submit", "Submit a job and print its id."),
    "queue": Entry("cli.queue", "queue", "List the jobs that wait and run."),
    "status": Entry("cli.status", "status", "Show one job in full."),
    "logs": Entry("cli.logs", "logs", "Print the output of a job."),
    "cancel": Entry("cli.cancel", "cancel", "End jobs, waiting or running."),
    "why": Entry("cli.why", "why", "Say why a job waits, or why it was placed where it is."),
    "nodes": Entry("cli.nodes", "nodes", "List the nodes."),
    "gpus": Entry("cli.gpus", "gpus", "List each share on each GPU, and who holds it."),
    "top": Entry("cli.top", "top", "Watch GPUs and jobs live."),
    "simulate": Entry("cli.simulate", "simulate", "Replay a trace through the same decisions.", plugins=True),
    "policies": Entry("cli.policies", "policies", "List the policies that can be chosen.", plugins=True),
    "trace": Entry("cli.trace", "trace", "Generate traces."),
    "manager": Entry("cli.manager", "manager", "Run the manager alone.", plugins=True),
    "agent": Entry("cli.agent", "agent", "Run the agent of this node alone.", plugins=True),
    "completion": Entry("cli.completion", "completion", "Print the completion script of a shell."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name, and imports one only to run it or to show its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of that name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(importlib.import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command)  # noqa: S101 - the table above is ours
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one is answered with the nearest name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"see '{PROGRAM} --help'"
            ctx.fail(f"no such command {args[0]!r}; {hint}")
        name, command, rest = super().resolve_command(ctx, args)
        asks = command is None or MANAGER_URL in {parameter.name for parameter in command.params}
        if not asks and ctx.params.get(MANAGER_URL) is not None:
            ctx.fail(f"'{PROGRAM} {name}' asks no manager; leave out --manager")
        if name is not None and COMMANDS[name].plugins and not ctx.resilient_parsing:
            from cotenant.plugins import load_plugins

            load_plugins()
        return name, command, rest

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; click would take a reader that went away for any failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGone from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands from the table, and the options of the group."""
        names = [
            CompletionItem(name, help=entry.summary)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        import cotenant

        click.echo(f"{PROGRAM} {cotenant.__version__}")
        ctx.exit()


@click.command(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 done, 1 failed, 2 bad input, 3 the manager cannot be reached.",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print it."
)
@manager_option
@click.pass_context
def cli(ctx: click.Context, manager_url: str | None) -> None:
    """Share GPUs between deep-learning jobs of many tenants.

    \b
    Start a small simulated cluster and run something on it:
      cotenant up --simulate 4xA100-SXM4-80GB
      cotenant submit --gpus 1 --memory 10Gi -- python train.py
      cotenant queue
    """  # noqa: D301 - click reads the backspace character
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status; an error is one line on stderr, never a traceback."""
    try:
        words = list(sys.argv[1:] if arguments is None else arguments)
        result = cli.main(args=words, prog_name=PROGRAM, standalone_mode=False)
        # Inside the try: a reader that went away shows itself only when the last of the output is written.
        if sys.stdout is not None:  # it is None where the caller closed it
            sys.stdout.flush()
    except BaseException as error:
        return exit_status_of(error)
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    sys.exit(main())
