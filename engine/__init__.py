"""kvtop's own inference engine: small enough to read in an evening, complete enough to be true."""
