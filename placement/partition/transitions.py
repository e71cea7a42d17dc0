"""Which changes of mode a GPU can make, the price of each, and when that price is worth paying."""

from __future__ import annotations

from dataclasses import dataclass, fields

from placement.model import InvalidAmount, Mode, Reason
from placement.model.amounts import is_finite
from placement.partition.geometry import geometry_of, mig_mode_resets
from placement.partition.instances import Change

MISO_CHANGE_S = 30.0
"""What one change costs a job that is moved, in MISO's simulator (its default overhead; SoCC'22)."""

MISO_REPARTITION_S = 4.0
"""Of it, destroying and creating MIG instances (MISO, SoCC'22: about 4 s; MIGRator measures about 6 s)."""

DRAIN_S = 5.0
"""The default grace of a job: the time it may take to save its work and end."""

RESET_S = 10.0
"""A GPU reset.  Our assumption: NVIDIA names no time, so a node that has measured its own should pass it."""

MIG_MODE_S = 1.0
"""Turning MIG on or off, reset not counted.  Our assumption."""

MPS_SERVER_S = 1.0
"""Starting or stopping an MPS server until a client is served.  Our assumption."""

HORIZON_S = 300
"""A job that waits is taken to find a place without any change after so long, so that a change has to pay off
in that time.  Our assumption; where the run times are known they say more."""


@dataclass(frozen=True, slots=True)
class TransitionCosts:
    """Seconds of each step; all may be replaced by what was measured.

    ``drain_s`` passes until the last resident has left, ``restore_s`` until one that was moved is as far as
    it was (start, load, warm up).  ``destroy_s`` and ``create_s`` are for all instances of one change.

    Raises:
        InvalidAmount: a time that is negative or not finite.
    """

    drain_s: float = DRAIN_S
    restore_s: float = MISO_CHANGE_S - MISO_REPARTITION_S - DRAIN_S
    reset_s: float = RESET_S
    mig_mode_s: float = MIG_MODE_S
    destroy_s: float = MISO_REPARTITION_S / 2
    create_s: float = MISO_REPARTITION_S / 2
    mps_start_s: float = MPS_SERVER_S
    mps_stop_s: float = MPS_SERVER_S

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (is_finite(value) and value >= 0):
                raise InvalidAmount(f"{field.name}: {value} must be a finite number of at least 0")


DEFAULT_COSTS = TransitionCosts()


@dataclass(frozen=True, slots=True)
class Price:
    """What a change costs: seconds until the residents have left, seconds of work on the GPU, jobs moved."""

    drain_s: float = 0.0
    reconfigure_s: float = 0.0
    moved: int = 0

    @property
    def delay_s(self) -> float:
        """Seconds until somebody can start in the new mode."""
        return self.drain_s + self.reconfigure_s


@dataclass(frozen=True, slots=True)
class Setup:
    """A GPU, or with ``in_slice`` one MIG instance of it, as it is set up, and who is in it.

    ``mode`` is the mode that it is set up for, even while nobody is there; None is as the driver leaves it.
    ``instances`` are the MIG instances that stand; ``settled`` says that some resident cannot be moved, or an
    instance is not ours; ``can_reset`` is False where a GPU must not be reset (a virtual machine).
    """

    gpu_model: str
    mode: Mode | None = None
    residents: int = 0
    instances: int = 0
    settled: bool = False
    can_reset: bool = True
    in_slice: bool = False


@dataclass(frozen=True, slots=True)
class Prospect:
    """What a change promises, in solo-equivalent GPUs: a job counts its GPUs divided by its slowdown.

    ``gain_gpus`` is how much more runs at once after the change than without it, over everybody concerned, a
    job that would wait counting nothing; it lasts until ``horizon_s`` from now.  ``held_gpus`` is what the
    jobs to be moved run at now, ``redo_s`` how much of their work they repeat (since the last checkpoint).
    """

    gain_gpus: float
    horizon_s: float
    held_gpus: float = 0.0
    redo_s: float = 0.0


def transition(setup: Setup, to: Mode | None, costs: TransitionCosts = DEFAULT_COSTS) -> Price | Reason:
    """The price of setting a GPU or a MIG instance up for another mode, or why that cannot be.

    Everybody leaves first: processes do not go over to another mode while they run.  Exclusive use and time
    slices need nothing of the GPU, MPS a server, MIG its mode and instances.  From Ampere's GPUs the MIG mode
    takes a reset; later ones change it in place (NVIDIA MIG user guide).  Inside an instance, a job alone
    (mode MIG) and time slices need nothing, MPS a server of the instance; its neighbours notice nothing.
    """
    if to is setup.mode:
        return Price()
    refusal = _refusal(setup, to)
    if refusal is not None:
        return refusal
    return Price(
        drain_s=costs.drain_s if setup.residents else 0.0,
        reconfigure_s=_leave_s(setup, costs) + _enter_s(setup, to, costs),
        moved=setup.residents,
    )


def repartition(change: Change, costs: TransitionCosts = DEFAULT_COSTS) -> Price:
    """The price of a change of MIG instances; the others keep running, and no reset is needed."""
    return Price(
        drain_s=costs.drain_s if change.moved else 0.0,
        reconfigure_s=(costs.destroy_s if change.destroyed else 0.0)
        + (costs.create_s if change.created else 0.0),
        moved=change.moved,
    )


def net_gain(price: Price, prospect: Prospect, costs: TransitionCosts = DEFAULT_COSTS) -> float:
    """What a change brings after all it costs, in solo-equivalent GPU-seconds.

        gain_gpus x max(0, horizon - delay)  -  held_gpus x (delay + restore + redo)

    The first term starts when the GPU is ready, which is ``delay`` = drain + reconfiguration from now.  The
    second is what the moved jobs would have done in the time in which they do nothing (delay, then restore)
    or do again what they had done (redo).  Jobs that stay lose nothing.
    """
    lasting_s = max(0.0, prospect.horizon_s - price.delay_s)
    gained = prospect.gain_gpus * lasting_s if prospect.gain_gpus else 0.0  # nothing, for however long
    return gained - prospect.held_gpus * (price.delay_s + costs.restore_s + prospect.redo_s)


def worth(price: Price, prospect: Prospect, costs: TransitionCosts = DEFAULT_COSTS) -> bool:
    """Whether a change is to be made: only if it gains more than the residents lose (:func:`net_gain`)."""
    return net_gain(price, prospect, costs) > 0


def _refusal(setup: Setup, to: Mode | None) -> Reason | None:
    if setup.in_slice:
        if Mode.EXCLUSIVE in (setup.mode, to):
            return Reason.GPU_MODE
    elif Mode.MIG in (setup.mode, to):
        if geometry_of(setup.gpu_model) is None:
            return Reason.GPU_MODEL
        if mig_mode_resets(setup.gpu_model) and not setup.can_reset:
            return Reason.GPU_MODE
    return Reason.GPU_BUSY if setup.settled else None


def _leave_s(setup: Setup, costs: TransitionCosts) -> float:
    if setup.mode is Mode.MPS:
        return costs.mps_stop_s
    if setup.mode is Mode.MIG and not setup.in_slice:
        return (costs.destroy_s if setup.instances else 0.0) + _mig_mode_s(setup, costs)
    return 0.0


def _enter_s(setup: Setup, to: Mode | None, costs: TransitionCosts) -> float:
    if to is Mode.MPS:
        return costs.mps_start_s
    if to is Mode.MIG and not setup.in_slice:
        return _mig_mode_s(setup, costs) + costs.create_s
    return 0.0


def _mig_mode_s(setup: Setup, costs: TransitionCosts) -> float:
    return costs.mig_mode_s + (costs.reset_s if mig_mode_resets(setup.gpu_model) else 0.0)
