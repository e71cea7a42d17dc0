"""A training job: a number of equal steps, with a loss that goes down.

python train.py STEPS [STEP_MS]
"""

import os
import sys

from work import Steps


def main() -> None:
    """Train."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    step_s = float(sys.argv[2]) / 1000 if len(sys.argv) > 2 else 0.015
    print(f"training {steps} steps on {os.environ.get('CUDA_VISIBLE_DEVICES', 'no GPU')}", flush=True)
    work = Steps(step_s)
    for number in range(1, steps + 1):
        loss = 4.0 / (1 + 0.05 * number)
        work.run(number, loss=loss)
        if number % 50 == 0:
            print(f"step {number}: loss {loss:.3f}", flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main()
