"""Tests of the engine. Imported before torch, so that the engine's thread settings hold."""

import engine  # noqa: F401
