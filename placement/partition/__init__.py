"""What a GPU can be cut into: MIG geometry, MPS shares, time slices; pure rules."""

from placement.partition.geometry import MigGeometry, MigProfile, geometry_of, mig_profile_names
from placement.partition.instances import (
    Change,
    Instance,
    Standing,
    change_for,
    cheapest_change,
    every_instance,
    legal_sets,
    maximal_sets,
    state_of,
)
from placement.partition.needs import MODE_ORDER, MPS_MAX_CLIENTS, Need, needs_of

__all__ = [
    "MODE_ORDER",
    "MPS_MAX_CLIENTS",
    "Change",
    "Instance",
    "MigGeometry",
    "MigProfile",
    "Need",
    "Standing",
    "change_for",
    "cheapest_change",
    "every_instance",
    "geometry_of",
    "legal_sets",
    "maximal_sets",
    "mig_profile_names",
    "needs_of",
    "state_of",
]
