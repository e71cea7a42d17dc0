"""What a GPU can be cut into: MIG geometry, MPS shares, time slices; pure rules."""

from placement.partition.containers import (
    Container,
    mig_instance,
    room_for,
    share_a_fault,
    whole_gpu,
    why_not,
)
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
from placement.partition.mps import (
    MPS_MAX_CLIENTS,
    MPS_MAX_CLIENTS_BEFORE_VOLTA,
    active_thread_percentage,
    mps_max_clients,
    mps_max_clients_in_slice,
)
from placement.partition.needs import MODE_ORDER, Need, needs_of

__all__ = [
    "MODE_ORDER",
    "MPS_MAX_CLIENTS",
    "MPS_MAX_CLIENTS_BEFORE_VOLTA",
    "Change",
    "Container",
    "Instance",
    "MigGeometry",
    "MigProfile",
    "Need",
    "Standing",
    "active_thread_percentage",
    "change_for",
    "cheapest_change",
    "every_instance",
    "geometry_of",
    "legal_sets",
    "maximal_sets",
    "mig_instance",
    "mig_profile_names",
    "mps_max_clients",
    "mps_max_clients_in_slice",
    "needs_of",
    "room_for",
    "share_a_fault",
    "state_of",
    "whole_gpu",
    "why_not",
]
