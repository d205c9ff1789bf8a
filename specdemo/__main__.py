"""`python -m specdemo`."""

import sys

from specdemo.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
