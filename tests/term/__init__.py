"""Tests of `kvtop.term`. Textual reads its settings when it is imported, so they are made first, as the app does."""

from kvtop.term.environment import prepare_environment

prepare_environment()
