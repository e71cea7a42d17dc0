"""The one place where an error becomes a line on stderr and an exit status."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback

import click

FAILED = 1
BAD_INPUT = 2
UNREACHABLE = 3
READER_GONE = 128 + 13
"""What a shell reports for a program that SIGPIPE ended."""
INTERRUPTED = 128 + 2
"""What a shell reports for a program that SIGINT ended."""

DEBUG_VARIABLE = "COTENANT_DEBUG"


class ReaderGone(Exception):
    """Whoever read our output has gone, as in `cotenant queue | head -1`."""


def exit_status_of(error: BaseException) -> int:
    """Say what went wrong in one line on stderr, and return the exit status that stands for it."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, SystemExit):
        return _status_of_system_exit(error)
    if isinstance(error, ReaderGone | BrokenPipeError):
        _silence_stdout()
        return READER_GONE
    if _debugging():
        traceback.print_exception(error)
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return INTERRUPTED
    message, status = _describe(error)
    _complain(message)
    return status


def one_line(text: str) -> str:
    """The text without line breaks and without characters that would steer a terminal."""
    return "".join(character if character.isprintable() else " " for character in " ".join(text.split()))


def _describe(error: BaseException) -> tuple[str, int]:
    if isinstance(error, click.UsageError):
        return _usage(error), BAD_INPUT
    if isinstance(error, click.ClickException):
        return error.format_message(), BAD_INPUT if isinstance(error, click.FileError) else FAILED
    # Imported only now: the vocabulary is not needed to start a command.
    from placement.model import CotenantError

    if isinstance(error, CotenantError):
        return str(error), _status_of(error)
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{where}", FAILED
    hint = "" if _debugging() else f" (set {DEBUG_VARIABLE}=1 to see where)"
    return f"internal error: {type(error).__name__}: {error}{hint}", FAILED


def _status_of(error: Exception) -> int:
    from placement.model import InvalidInput, Unreachable

    if isinstance(error, InvalidInput):
        return BAD_INPUT
    return UNREACHABLE if isinstance(error, Unreachable) else FAILED


def _usage(error: click.UsageError) -> str:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return f"nothing to do; see '{error.ctx.command_path} --help'"
    message = error.format_message().rstrip(".")
    if error.ctx is None or "--help'" in message:
        return message
    return f"{message}; see '{error.ctx.command_path} --help'"


def _status_of_system_exit(error: SystemExit) -> int:
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    _complain(str(error.code))
    return FAILED


def _complain(message: str) -> None:
    # Where nobody reads stderr any more, the exit status still tells.
    with contextlib.suppress(OSError):
        click.echo(f"cotenant: {one_line(message)}", err=True)


def _debugging() -> bool:
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")


def _silence_stdout() -> None:
    """Send the rest of the output nowhere, so that the interpreter does not complain again at its end."""
    # No real stdout (a test, a closed stream) leaves nothing to flush either.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
