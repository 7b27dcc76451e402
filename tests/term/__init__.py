"""Tests of `kvtop.term`."""
