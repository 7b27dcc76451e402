"""Makes the pictures in ``screenshots/``: ``python -m tests.screenshots [--model smollm2|random]``.

Starts the real engine with the demo's mix and its fixed seed, waits until there is something of everything to see
(several owners, shared blocks, a queue held back, a preemption), and draws that moment as the screen shows it, at both
sizes, at each colour depth and on dark and light paper. Nothing is drawn by hand; what a clock measures differs from run to run.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from kvtop.app.feed import Feed
from kvtop.app.picture import screen_svg
from kvtop.commands.demo import preset_arguments
from kvtop.protocol import ROUTINE_EVENTS, PolicyValue, SetPolicy
from kvtop.sources.control import ControlClient
from kvtop.sources.socket import SocketSource
from kvtop.state import EngineState
from kvtop.term.depth import ColourDepth
from kvtop.term.paper import Paper

FOLDER = Path(__file__).parent.parent / "screenshots"
SMALL, MIDDLE, LARGE = (80, 24), (120, 40), (200, 50)
PATIENCE = 240.0
SEEN_AT_ONCE = 16
"""Latest events among which something must be for a picture to show it."""


def something_of_everything(state: EngineState) -> bool:
    """Several owners, shared and cached blocks, a verdict on the queue's head and a preemption on the list."""
    if state.blocks is None or state.verdict is None:
        return False
    owners = len(set(state.blocks.owner[state.blocks.owner >= 0].tolist()))
    shared, cached = state.gauges.get("kv_blocks_shared") or 0, state.gauges.get("kv_blocks_cached") or 0
    recent = list(state.events)[-8:]
    return owners >= 4 and shared > 0 and cached > 0 and any(getattr(e, "kind", "") == "preempt" for e in recent)


def tiers_at_work(state: EngineState) -> bool:
    """Blocks in every tier, a request swapped in again, and one that is out now."""
    tiers = [level for level in state.tiers if level.blocks_total]
    kinds = {getattr(entry, "kind", "") for entry in state.events}
    return (
        len(tiers) == 3
        and all((level.blocks_cached or 0) + (level.blocks_held or 0) > 0 for level in tiers)
        and {"swap_in", "swap_out"} <= kinds
        and any(row.state == "swapped" for row in (state.requests or {}).values())
    )


def sharing_at_work(state: EngineState) -> bool:
    """All samples of a prompt in decode over shared blocks, a copy before a write, and something cached."""
    samples = Counter(row.group for row in (state.requests or {}).values() if row.state == "decode" and row.siblings)
    shared, cached = state.gauges.get("kv_blocks_shared") or 0, state.gauges.get("kv_blocks_cached") or 0
    copied = any(getattr(entry, "kind", "") == "copy" for entry in list(state.events)[-SEEN_AT_ONCE:])
    return copied and shared >= 8 and cached > 0 and max(samples.values(), default=0) >= 3


def slid_out_of_a_window(state: EngineState) -> bool:
    """The first request of the table, which the picture looks into, has given up blocks of one KV group and holds others."""
    row = next((row for row in (state.requests or {}).values() if not row.finished), None)
    return row is not None and 3 <= len(row.table) - len(row.held) <= 10 and state.verdict is not None


def switched_under_load(state: EngineState) -> bool:
    """Both switches and, after them, a swapped request that came back are among the latest events."""
    kinds = [getattr(entry, "kind", "") for entry in state.events]
    notable = [kind for kind in kinds if kind and kind not in ROUTINE_EVENTS][-SEEN_AT_ONCE:]
    switches = [i for i, kind in enumerate(notable) if kind == "policy"]
    return len(switches) == 2 and "swap_in" in notable[switches[-1] :]


def a_telling_moment(
    model: str,
    options: Sequence[str],
    telling: Callable[[EngineState], bool],
    switches: Sequence[dict[str, PolicyValue]] = (),
) -> tuple[EngineState, float]:
    """A state of a running engine, and the viewer's clock at that moment. ``switches`` of policies are asked for, one
    after the other, once something of everything is there to see."""
    left = list(switches)
    with tempfile.TemporaryDirectory(prefix="kvs") as place:
        os.chmod(place, 0o700)
        environment = os.environ | {"KVTOP_SOCKET_DIR": place}
        command = [
            sys.executable,
            "-m",
            "engine",
            "--model",
            model,
            "--name",
            "demo",
            "--parent-stdin",
            *options,
        ]
        engine = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
        feed = Feed(SocketSource(Path(place) / "demo.sock"))
        feed.source.start()
        try:
            until = time.monotonic() + PATIENCE
            while time.monotonic() < until:
                feed.drain(time.monotonic())
                if left and something_of_everything(feed.live):
                    control = ControlClient(Path(place) / "demo.ctl.sock")
                    for changes in left:
                        assert control.send(SetPolicy(id="switch", changes=changes)).ok
                    left.clear()
                if not left and telling(feed.live):
                    return feed.live, time.monotonic()
                time.sleep(0.02)
        finally:
            feed.source.close()
            assert engine.stdin is not None
            engine.stdin.close()
            engine.wait(20)
    raise SystemExit(f"nothing worth a picture happened within {PATIENCE:g} s")


TRUE, SIXTEEN, NONE = ColourDepth.TRUECOLOR, ColourDepth.ANSI16, ColourDepth.NONE
DARK, LIGHT = Paper.DARK, Paper.LIGHT
Picture = tuple[tuple[int, int], ColourDepth, Paper, tuple[str, ...]]
DEMO: dict[str, Picture] = {
    "demo-80x24": (SMALL, TRUE, DARK, ()),
    "demo-200x50": (LARGE, TRUE, DARK, ()),
    "demo-80x24-16-colours": (SMALL, SIXTEEN, DARK, ()),
    "demo-200x50-16-colours": (LARGE, SIXTEEN, DARK, ()),
    "demo-80x24-no-color": (SMALL, NONE, DARK, ()),
    "demo-200x50-no-color": (LARGE, NONE, DARK, ()),
    "demo-80x24-light": (SMALL, TRUE, LIGHT, ()),
    "demo-200x50-light": (LARGE, TRUE, LIGHT, ()),
    "demo-80x24-light-16-colours": (SMALL, SIXTEEN, LIGHT, ()),
    "recency-80x24-light": (SMALL, TRUE, LIGHT, ("1", "c", "c", "l", "l")),
    "recency-80x24": (SMALL, TRUE, DARK, ("1", "c", "c", "l", "l")),
    "owners-200x50-light": (LARGE, TRUE, LIGHT, ("1", "c", "2", "j")),
    "owners-200x50": (LARGE, TRUE, DARK, ("1", "c")),
    "block-table-80x24": (SMALL, TRUE, DARK, ("2", "j", "enter")),
    "help-80x24": (SMALL, TRUE, DARK, ("question_mark",)),
    "numbers-80x24": (SMALL, TRUE, DARK, ("2", "j", "i")),
    "scheduler-120x40": (MIDDLE, TRUE, DARK, ("6",)),
    "latency-120x40": (MIDDLE, TRUE, DARK, ("7",)),
    "alarms-80x24": (SMALL, TRUE, DARK, ("exclamation_mark",)),
    "request-120x40": (MIDDLE, TRUE, DARK, ("2", "j", "enter")),
}
TIERS: dict[str, Picture] = {
    "tiers-80x24": (SMALL, TRUE, DARK, ("5",)),
    "tiers-80x24-16-colours": (SMALL, SIXTEEN, DARK, ("5",)),
    "tiers-80x24-no-color": (SMALL, NONE, DARK, ("5",)),
    "tiers-200x50": (LARGE, TRUE, DARK, ()),
    "tiers-host-map-200x50": (LARGE, TRUE, DARK, ("t",)),
}
SHARING: dict[str, Picture] = {
    "sharing-80x24": (SMALL, TRUE, DARK, ("1", "c", "c", "c")),
    "sharing-200x50": (LARGE, TRUE, DARK, ("4", "v")),
}
HYBRID: dict[str, Picture] = {
    "hybrid-block-table-80x24": (SMALL, TRUE, DARK, ("2", "j", "enter")),
    "hybrid-block-200x50": (LARGE, TRUE, DARK, ("1", "l", "l")),
}
SWITCHES: dict[str, Picture] = {
    "switched-200x50": (LARGE, TRUE, DARK, ("4", "v")),
    "policies-80x24": (SMALL, TRUE, DARK, ("P", *["j"] * 7)),
}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--model", default="smollm2", choices=["smollm2", "random"])
    p.add_argument("--only", metavar="PICTURE", help="this one and those of the same moment")
    arguments = p.parse_args()
    model, only = arguments.model, arguments.only
    FOLDER.mkdir(exist_ok=True)
    recompute = (*preset_arguments("tiers"), "--set", "preempt_action=recompute")
    switches: list[dict[str, PolicyValue]] = [{"preempt_action": "swap"}, {"eviction": "priority"}]
    for options, telling, asked, pictures in (
        (("--workload", "mix"), something_of_everything, (), DEMO),
        (preset_arguments("tiers"), tiers_at_work, (), TIERS),
        (preset_arguments("sharing"), sharing_at_work, (), SHARING),
        (("--workload", "mix", "--window", "64,full"), slid_out_of_a_window, (), HYBRID),
        (recompute, switched_under_load, switches, SWITCHES),
    ):
        if only and only not in pictures:
            continue
        state, now = a_telling_moment(model, options, telling, asked)
        for name, (size, depth, paper, keys) in pictures.items():
            path = FOLDER / f"{name}.svg"
            path.write_text(screen_svg(state, size, now, depth=depth, paper=paper, keys=keys))
            print(path)


if __name__ == "__main__":
    main()
