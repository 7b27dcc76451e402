"""``python -m kvtop``."""

import sys

from kvtop.cli import main

if __name__ == "__main__":
    sys.exit(main())
