import subprocess
import sys
from pathlib import Path

from tests.publish.kit import running

NOT_OURS = """
import os, sys
from pathlib import Path
from kvtop.sources.connect import ConnectError, open_socket
path = Path(sys.argv[1])
if os.getuid() == 0:
    os.setuid(65534)  # root may open everything, so become somebody who may not
else:
    path.chmod(0)
try:
    open_socket(path, 5.0)
except ConnectError as error:
    print(error)
"""


def test_a_socket_of_another_user_is_named_so(folder: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    with running(folder):
        done = subprocess.run(
            [sys.executable, "-c", NOT_OURS, str(folder / "toy.sock")],
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == f"permission denied on {folder / 'toy.sock'}; it belongs to another user\n"
