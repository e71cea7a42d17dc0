"""A small inference server that answers requests: each is a short step.

python serve.py REQUESTS [REQUEST_MS]
"""

import sys

from work import Steps


def main() -> None:
    """Answer, and say now and then how many."""
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    request_s = float(sys.argv[2]) / 1000 if len(sys.argv) > 2 else 0.01
    work = Steps(request_s)
    for number in range(1, requests + 1):
        work.run(number)
        if number % 100 == 0:
            print(f"{number} requests answered", flush=True)


if __name__ == "__main__":
    main()
