"""Scheduling strategies: one file an axis, each a small registry from name to strategy with its help text."""
