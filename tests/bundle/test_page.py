"""``report.html`` in a real browser: what a reviewer sees there, at the moment and at another, whatever names are in it."""

import html
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from kvtop.bundle.report import report
from kvtop.bundle.story import Story, story
from kvtop.record import Recording
from tests.bundle.test_bundle import HOSTILE, hostile
from tests.recordings.kit import recording, told

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--virtual-time-budget=2000",
    "--dump-dom",
]

pytestmark = pytest.mark.skipif(
    BROWSER is None and not os.environ.get("KVTOP_TEST_BROWSER"),
    reason="no Chromium; KVTOP_TEST_BROWSER=1 insists on one",
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Story]:
    folder = tmp_path_factory.mktemp("page")
    tape = Recording(recording(folder / "a.kvtop", hostile(told(900, seed=9))))
    assert tape.start is not None
    assert tape.end is not None
    written = story(tape, tape.start, tape.end, tape.end)
    path = folder / "report.html"
    path.write_text(report(written), encoding="utf-8")
    return path, written


def seen(path: Path, link: str) -> str:
    """The page's elements after its script has run."""
    assert BROWSER is not None, "no Chromium"
    # A short name: the browser makes a socket below it.
    with tempfile.TemporaryDirectory(prefix="page", ignore_cleanup_errors=True) as folder:
        env = {"PATH": os.environ["PATH"], "HOME": folder, "TMPDIR": folder}
        command = [BROWSER, *FLAGS, f"--user-data-dir={folder}/user", f"file://{path}{link}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=env)
    return done.stdout.split("<script>")[0]


def text_of(dom: str, id: str) -> str:
    found = re.search(rf'id="{id}"[^>]*>(.*?)</(?:table|p|strong|span|h1|div)>', dom, re.DOTALL)
    assert found is not None, id
    return html.unescape(re.sub(r"<[^>]+>", " ", found[1]))


def test_it_shows_the_moment_and_who_was_preempted(page: tuple[Path, Story]) -> None:
    path, written = page
    dom = seen(path, "")
    assert f"iteration {written.scenes[-1].iteration}" in text_of(dom, "when")
    assert text_of(dom, "ago") == "the moment"
    victims = re.findall(r"<tr tabindex=\"0\"><td>(.*?)</td>", dom.split('id="victims"')[1].split("</table>")[0])
    assert [html.unescape(name) for name in victims] == [victim.request for victim in written.victims]
    assert HOSTILE in map(html.unescape, victims)
    assert "<img" not in dom
    assert f"{sum(v.times for v in written.victims)} times" in text_of(dom, "preempted-note")
    assert written.scenes[-1].verdict in text_of(dom, "verdict")


def test_a_link_leads_to_another_moment(page: tuple[Path, Story]) -> None:
    path, written = page
    scene = written.scenes[3]
    dom = seen(path, f"#t={scene.wall}")
    assert f"iteration {scene.iteration}" in text_of(dom, "when")
    assert "before the moment" in text_of(dom, "ago")
    for state, number in scene.states.items():
        assert f"{number} {state}" in text_of(dom, "requests-note")
