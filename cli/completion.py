"""`cotenant completion`: the script that a shell sources to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    Examples:
      eval "$(cotenant completion bash)"          # this shell
      cotenant completion bash > ~/.local/share/bash-completion/completions/cotenant
      cotenant completion zsh > "${fpath[1]}/_cotenant"
      cotenant completion fish > ~/.config/fish/completions/cotenant.fish
    """  # noqa: D301 - click reads the backspace character
    from cli.main import PROGRAM, cli

    completer = get_completion_class(shell)
    if completer is None:
        raise click.UsageError(f"no completion for {shell}")
    # Not .source(): the bash one starts bash to warn of old versions, which is none of our business here.
    instance = completer(cli, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE")
    click.echo(instance.source_template % instance.source_vars())
