"""A job that fails on purpose: after some steps it ends with exit status 3.

python fail.py STEPS [STEP_MS]
"""

import sys

from work import Steps


def main() -> int:
    """Work a little, then give up."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    step_s = float(sys.argv[2]) / 1000 if len(sys.argv) > 2 else 0.015
    work = Steps(step_s)
    for number in range(1, steps + 1):
        work.run(number)
    print("the loss is not a number: giving up", file=sys.stderr, flush=True)
    return 3


if __name__ == "__main__":
    sys.exit(main())
