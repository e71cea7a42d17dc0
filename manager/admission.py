"""What a submission must not name: GPU models, MIG profiles and job profiles that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from manager.wire.models import JobSpec
from placement.model import KNOWN_GPU_MEMORY_BYTES, Node, UnknownName, model_matches
from placement.partition.geometry import mig_profile_names


def check_names(spec: JobSpec, nodes: Iterable[Node], profiles: Collection[str]) -> None:
    """Refuse a name that is in no catalogue and on no node; a known one that is busy or absent may wait.

    Raises:
        UnknownName: with the nearest names that exist.
    """
    present = {gpu.model for node in nodes for gpu in node.gpus}
    models = present | set(KNOWN_GPU_MEMORY_BYTES)
    for selector in spec.request.gpu_models:
        if not any(model_matches(selector, model) for model in models):
            held = f"the cluster has {', '.join(sorted(present)) or 'no GPUs yet'}"
            hint = _nearest(selector, models) or ";"
            raise UnknownName(f"gpu_models: {selector!r} is no known GPU model{hint} {held}")
    wanted = spec.request.mig_profile
    known = mig_profile_names()
    if wanted is not None and wanted not in known:
        raise UnknownName(f"mig_profile: {wanted!r} is no known MIG profile{_nearest(wanted, known)}")
    if spec.profile is not None and spec.profile not in profiles:
        hint = (
            _nearest(spec.profile, profiles) or "; define it first (PUT /v1/profiles/NAME, or --profile FILE)"
        )
        raise UnknownName(f"profile: {spec.profile!r} is no known job profile{hint}")


def _nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean ...?`, or nothing if nothing is near."""
    by_lower = {other.lower(): other for other in sorted(known)}
    near = difflib.get_close_matches(name.lower(), list(by_lower), n=3, cutoff=0.5)
    if not near:  # a family such as A1000 or H10 may still begin like one that exists
        near = [other for other in by_lower if other[:2] == name.lower()[:2]][:3]
    return f"; did you mean {' or '.join(by_lower[n] for n in near)}?" if near else ""
