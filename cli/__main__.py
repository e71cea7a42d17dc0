"""`python -m cli` is `cotenant`."""

import sys

from cli.main import main

if __name__ == "__main__":
    sys.exit(main())
