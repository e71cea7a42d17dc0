"""One worker of a gang: each knows its rank, and all start together.

python gang.py STEPS [STEP_MS]
"""

import os
import sys

from work import Steps


def main() -> None:
    """Train as one of ``WORLD_SIZE`` workers."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    step_s = float(sys.argv[2]) / 1000 if len(sys.argv) > 2 else 0.015
    rank, world_size = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
    print(f"worker {rank} of {world_size} on {os.environ.get('CUDA_VISIBLE_DEVICES', 'no GPU')}", flush=True)
    work = Steps(step_s)
    for number in range(1, steps + 1):
        work.run(number)
    print(f"worker {rank} done", flush=True)


if __name__ == "__main__":
    main()
