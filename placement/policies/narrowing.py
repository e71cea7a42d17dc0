"""Requests restricted to the modes that a placement prefers."""

from __future__ import annotations

import functools
from dataclasses import replace

from placement.model import Mode, Request
from placement.partition import possible_modes


@functools.lru_cache(maxsize=4096)
def narrowed(request: Request, modes: frozenset[Mode]) -> Request:
    """The request in these modes alone; as it is where none of them could serve it.

    The same object for the same request: it is known again by its identity.
    """
    if request.modes <= modes or not possible_modes(request) & modes:
        return request
    return replace(request, modes=request.modes & modes)
