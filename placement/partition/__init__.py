"""What a GPU can be cut into: MIG geometry, MPS shares, time slices; pure rules."""

from placement.partition.geometry import MigGeometry, MigProfile, geometry_of, mig_profile_names
from placement.partition.needs import MODE_ORDER, MPS_MAX_CLIENTS, Need, needs_of

__all__ = [
    "MODE_ORDER",
    "MPS_MAX_CLIENTS",
    "MigGeometry",
    "MigProfile",
    "Need",
    "geometry_of",
    "mig_profile_names",
    "needs_of",
]
