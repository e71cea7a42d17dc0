"""Numbers on the command lines of the benchmarks."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def at_least(least: int) -> Callable[[str], int]:
    """Reads a whole number that is not below a limit; the reader raises argparse.ArgumentTypeError."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"{text!r}: write a whole number of at least {least}")
        return number

    return read
