"""The version of this manager."""

from __future__ import annotations

import importlib.metadata


def version() -> str:
    """The version of the installed distribution, ``0`` where it runs without being installed."""
    try:
        return importlib.metadata.version("cotenant")
    except importlib.metadata.PackageNotFoundError:
        return "0"
