"""One table of numbers: complete, true to the protocol, and what help, pages and snapshots are made of."""

from collections.abc import Iterator
from typing import Any

from kvtop.app.keys import SECTIONS as KEYS
from kvtop.app.manual import SNAPSHOT_PAGE, page, snapshot_page
from kvtop.protocol import Counters, Durations, Gauges, TierLevel
from kvtop.snapshot.document import UNITS, snapshot_document
from kvtop.views.definition import Number, sent_meaning
from kvtop.views.glyphs import UNICODE
from kvtop.views.numbers import SECTIONS, in_file, numbers
from panels.dialogs.help_text import help_rows
from tests.views.scene import LATER, WALL, scene


def test_every_source_is_a_field_that_engines_send_and_says_what_it_is() -> None:
    for number in numbers():
        assert number.meaning, number
        assert number.unit, number
        for source in number.sources:
            assert sent_meaning(source)


def test_no_two_numbers_share_a_name_in_files_or_in_a_section_of_the_help() -> None:
    files = [number.file for number in numbers() if number.file]
    assert sorted(files) == sorted(set(files))
    for section in SECTIONS:
        names = [entry.name for entry in section.entries]
        assert len(names) == len(set(names)), section.name


def test_every_gauge_counter_duration_and_level_is_in_the_table() -> None:
    sources = {source for number in numbers() for source in number.sources}
    for part, model in (("gauges", Gauges), ("counters", Counters), ("durations", Durations), ("tiers", TierLevel)):
        wanted = {f"{part}.{name}" for name in model.model_fields} - {"tiers.tier", "tiers.group"}
        assert wanted <= sources


NOT_NUMBERS = ("engine", "model", "geometry", "limits", "policies", "policy_axes", "policy_id", "blocks", "events", "verdict",
               "queue", "link", "units", "wall", "mono", "status")  # fmt: skip
"""Parts of a snapshot that are told as the engine tells them: what `docs/protocol.md` and `docs/snapshot.md` describe."""


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """Places of all numbers of a document, without places in lists."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def test_every_number_of_a_snapshot_has_its_definition() -> None:
    document = snapshot_document(scene(tiers=[TierLevel(tier="device", blocks_total=64, blocks_free=1)]), WALL, LATER)
    known = {number.file for number in numbers() if number.file}
    beside = {
        "latencies.window",
        "rates.window",
        "iteration_ms.iterations",
        "tiers.window",
        "tiers.hit_window",
        "tiers.group",
    }
    beside |= {"requests.num", "requests.group", "requests.block_table"}
    beside |= {f"latencies.{name}.{part}" for name in ("ttft", "tpot") for part in ("p50", "p95", "n")}
    told = {path for path in leaves(document) if path.split(".")[0] not in NOT_NUMBERS}
    assert told - known - beside == set()
    for number in numbers():
        if number.file:
            assert UNITS[number.file] == number.measure


def test_headline_fields_are_those_that_are_sent() -> None:
    state = scene()
    document = snapshot_document(state, WALL, LATER)
    for number in in_file():
        if len(number.sources) == 1 and number.file != "iteration":
            part, _, field = number.sources[0].partition(".")
            assert document[number.file] == getattr(state, part).get(field), number.file


def test_help_and_pages_hold_every_definition() -> None:
    rows = help_rows(150, None, UNICODE, KEYS)
    help_text = " ".join(" ".join(row.text for row in rows).split())
    written = page()
    for section in SECTIONS:
        for entry in section.entries:
            assert entry.text in help_text
            assert entry.meaning.replace("|", "\\|") in written
            if isinstance(entry, Number):
                assert entry.measure in written
    text = SNAPSHOT_PAGE.read_text()
    assert snapshot_page(text) == text
