"""A policy of one's own: the job that asks for the fewest GPUs goes first.

It stands alone as a program that compares it with the others, and as a plug-in (see pyproject.toml beside it)
that every `cotenant` command knows once it is installed: `cotenant up --policy small-first`.
"""

import cotenant


class SmallFirst:
    """Fewest GPUs first; equals in the order of submission."""

    name = "small-first"
    strict = False  # who does not fit holds nobody up
    preemptive = False  # nobody has to leave for another
    rank_per_s = 0.0  # the rank of a job does not change while it runs
    knows_durations = False  # a simulation does not tell it how long jobs take

    def rank(self, job: cotenant.Job, remaining_s: float | None) -> float:
        """The lower the earlier; priority comes before it, submission time after it."""
        return job.workers * job.request.gpus


def main() -> None:
    """Compare it with first come, first served on the trace that ships, on too small a cluster."""
    # Under another name than the plug-in has, which may be installed as well.
    cotenant.register_policy("mine", order=SmallFirst)
    for policy in ("fifo", "backfill", "mine"):
        metrics = cotenant.simulate(policy=policy, cluster="4x8xA100-SXM4-80GB").metrics
        print(
            f"{policy:12} mean wait {metrics.avg_wait_s:8.0f} s, mean completion {metrics.avg_jct_s:8.0f} s"
        )


if __name__ == "__main__":
    main()
