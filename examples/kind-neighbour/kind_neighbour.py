"""A placement of one's own: where the newcomer and its neighbours are predicted to suffer least.

Installed as a plug-in (see pyproject.toml beside it), every `cotenant` command knows it:
`cotenant simulate --policy srtf+kind-neighbour`.
"""

import cotenant


class KindNeighbour(cotenant.Placement):
    """The least predicted slowdown, all jobs on the GPU counted; sharing may cost up to a tenth."""

    name = "kind-neighbour"
    any_mode = True  # the score weighs MPS, time slices, MIG slices and whole GPUs against each other

    @staticmethod
    def score(at: cotenant.Offer) -> int:
        """The lower the better: thousandths of slowdown before free compute of the GPU."""
        harm = at.suffered + at.inflicted
        opening = cotenant.where(at.opened > 0, 100, 0)
        return 1000 * (harm + opening) + at.taken + at.gpu_left
