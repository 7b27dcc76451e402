"""The publisher needs no engine of ours: ten lines are enough to drive it."""

import subprocess
import sys
from pathlib import Path

from kvtop.protocol import Hello, IterationFrame, Keyframe, Reply
from kvtop.publish import Publisher
from tests.publish.kit import Peer, frame, hello, keyframe


def test_a_ten_line_engine_is_watched_and_commanded(folder: Path) -> None:
    publisher = Publisher(hello(), folder)
    publisher.start()
    with Peer(folder / "toy.sock") as viewer, Peer(folder / "toy.ctl.sock") as controller:
        controller.send({"type": "set_policy", "id": "p1", "changes": {"queue": "priority"}})
        policy, seq = "fcfs", 0
        while policy == "fcfs" or seq < 5:
            for pending in publisher.commands():
                policy = pending.command.changes["queue"]
                pending.reply(True, iteration=seq + 1, message="from the next iteration on")
            if publisher.keyframe_due():
                publisher.publish_keyframe(keyframe(seq, policy={"queue": policy}))
            seq += 1
            publisher.publish(frame(seq, policy={"queue": policy}))
            publisher.wait(0.01)
        publisher.stop("enough")
        assert controller.of(Reply).ok
        messages = viewer.until(lambda m: m.type == "bye")
    assert isinstance(messages[0], Hello)
    assert isinstance(messages[1], Keyframe)
    frames = [m for m in messages if isinstance(m, IterationFrame)]
    assert frames[-1].seq == seq
    assert frames[-1].policy == {"queue": "priority"}


def test_publishing_works_before_start_and_after_stop(folder: Path) -> None:
    publisher = Publisher(hello(), folder)
    publisher.publish_keyframe(keyframe(0))
    publisher.publish(frame(1))
    publisher.start()
    with Peer(folder / "toy.sock") as viewer:
        assert viewer.of(Keyframe).seq == 0
        assert viewer.of(IterationFrame).seq == 1
    publisher.stop("done")
    publisher.publish(frame(2))
    assert publisher.viewers == 0
    assert publisher.commands() == []


def test_it_brings_nothing_into_an_engine_but_the_protocol_and_recordings() -> None:
    program = (
        "import sys, kvtop.publish\n"
        "unwanted = {'torch', 'numpy', 'textual', 'rich', 'engine', 'panels', 'asyncio', 'httpx'}\n"
        "print(sorted(unwanted & set(sys.modules)), [m for m in sys.modules if m.startswith('kvtop.') "
        "and not m.startswith(('kvtop.protocol', 'kvtop.publish', 'kvtop.record'))])\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "[] []\n"
