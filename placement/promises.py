"""Whether a newcomer may join a neighbourhood: no promise may break, its own or a neighbour's."""

from __future__ import annotations

from placement.interference import InterferenceModel, Prediction, Resident
from placement.model import Reason
from placement.neighbourhood import Neighbour, Neighbourhood


def broken_promise(
    belief: InterferenceModel, newcomer: Neighbour, place: Neighbourhood, copies: int = 1
) -> Reason | None:
    """The promise that would break if the newcomer joined, judged by the upper bound; None if all hold.

    It takes ``copies`` shares, each a neighbour of the others.

    A promise next to somebody whose slowdown cannot be predicted counts as broken: it could not be kept
    knowingly.
    """
    if newcomer.max_slowdown is None and not place.promised:
        return None
    residents = [*place.neighbours, *(newcomer,) * copies]
    if place.opaque is not None:
        residents.append(Neighbour(Resident(None, place.opaque, 1), None))
    predictions = belief.predict(place.gpu_model, tuple(neighbour.resident for neighbour in residents))
    for neighbour, prediction in zip(residents, predictions, strict=True):
        if not _kept(neighbour, prediction):
            return Reason.OWN_PROMISE if neighbour is newcomer else Reason.NEIGHBOUR_PROMISE
    return None


def _kept(neighbour: Neighbour, prediction: Prediction) -> bool:
    if neighbour.max_slowdown is None:
        return True
    return prediction.upper is not None and prediction.upper <= neighbour.max_slowdown
