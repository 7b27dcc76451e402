"""Triton kernels. Importing a module here needs the `triton` package; nothing else in the engine does."""
