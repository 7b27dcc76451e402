"""kvtop's own inference engine: written to be read, complete enough to be true."""

import os

# Read by OpenMP when torch is imported, hence here. By default its threads spin while they wait for each other; as soon
# as anything else wants a core (the screen does), every matrix product then waits for a thread that is not running:
# steps were seen to take ten times as long. Sleeping at once costs a tenth of a step on a quiet machine; spinning for
# some microseconds first costs nothing there and little under load.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")
