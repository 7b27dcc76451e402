"""``kvtop completion bash|zsh|fish``: a script that completes what can be typed, made of the parser itself."""

import argparse
import sys

from kvtop.commands.shells import SCRIPTS
from kvtop.commands.tree import tree_of


def run(options: argparse.Namespace) -> int:
    sys.stdout.write(SCRIPTS[options.shell](tree_of(options.parser)))
    return 0
