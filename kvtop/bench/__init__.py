"""Benchmarks of servers: loads in a fixed form, one after the other, and their results as one document."""
