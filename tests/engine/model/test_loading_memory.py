"""A model takes the memory of its weights while it is loaded, and of one matrix more: never twice its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.hf_models import Kind, write_folder, write_gguf

LARGE = Kind(
    "large", "LlamaConfig", {"hidden_size": 320, "intermediate_size": 2560, "num_hidden_layers": 8}, gguf="llama"
)

_MEASURE = """
import json, sys
from pathlib import Path
from engine.model.files.placer import Placer
from engine.model.load import load_model

def anonymous():
    # Anonymous memory: pages of the mapped file can be dropped at any time and do not count.
    text = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("RssAnon")) * 1024

before = anonymous()
peaks = []
take = Placer.take
def watched(self, *parts, **more):
    tensor = take(self, *parts, **more)
    peaks.append(anonymous() - before)
    return tensor
Placer.take = watched
model = load_model(Path(sys.argv[1]))
weights = sum(t.numel() * t.element_size() for t in model.decoder.weights.tensors())
print(json.dumps([max(peaks), anonymous() - before, weights]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("form", ["folder", "gguf"])
def test_loading_holds_the_weights_once(form: str, tmp_path: Path) -> None:
    reference = write_folder(tmp_path / "folder", LARGE)
    path = tmp_path / "folder" if form == "folder" else write_gguf(tmp_path / "m.gguf", LARGE, reference)
    done = subprocess.run([sys.executable, "-c", _MEASURE, str(path)], capture_output=True, text=True, check=True)
    peak, after, weights = json.loads(done.stdout.splitlines()[-1])
    print(peak / weights, after / weights, weights)
    assert weights > 80e6
    assert peak < 1.25 * weights, f"{peak / weights:.2f} times the weights at the peak"
    assert after < 1.25 * weights
