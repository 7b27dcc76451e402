"""``python -m kvtop``."""

from kvtop.cli import entry

if __name__ == "__main__":
    entry()
