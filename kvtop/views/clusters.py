"""Text of any script in cells: one character a cell, whatever is drawn in it.

What one sees as one character may be several code points, and two cells wide. Views count, cut and pad by characters; so
each such *cluster* gets one private code point that stands for it, and, where it is two cells wide, `CONTINUATION` after
it. `spell` turns them back when text leaves the cells.

Terminals do not agree on how wide a joined emoji, a flag or a spacing vowel sign is. Such a cluster takes the two cells
that newer ones give it, and on the way to a terminal it is spelled with cursor movements around it, so that what follows
stands where it should; what older terminals draw beyond the two cells is overdrawn (`OVERFLOW`).
"""

import re
import threading
import unicodedata
from collections.abc import Iterator
from typing import Final

CONTINUATION: Final = "\U000f0000"
"""Stands in the second cell of what is two cells wide."""

OVERFLOW: Final = 10
"""Cells after an unsteady cluster that an older terminal may draw on."""

FIRST_UNSTEADY: Final = 0x100000
"""Private code points from here on are clusters whose width terminals do not agree on."""

FIRST_WIDE: Final = 0xF2000
"""Private code points from here on are of two cells."""

_FIRST_NARROW, _END = 0xF0001, 0x10FFFE
_PLANE_END = 0xFFFFE
_MARKS_MOST = 4
"""Combining marks kept on one character."""
_JOINED_MOST = 10
"""Code points of a joined emoji."""

_STAND_IN = re.compile("[\U000f0000-\U0010ffff]")
_ORPHAN = re.compile("[\U000f2000-\U0010ffff](?!\U000f0000)|(?<![\U000f2000-\U0010ffff])\U000f0000")

_ZWJ, _TEXT_STYLE, _EMOJI_STYLE, _KEYCAP = "\u200d", "\ufe0e", "\ufe0f", "\u20e3"
_TONES = range(0x1F3FB, 0x1F400)
_FLAG_LETTERS = range(0x1F1E6, 0x1F200)
_JOINING = (range(0x1160, 0x1200), range(0xD7B0, 0xD800))
"""Vowels and finals of Hangul: they are drawn into the syllable before them."""
_GROWN = (range(0x2630, 0x2638), range(0x268A, 0x2690), range(0x4DC0, 0x4E00), range(0x1D300, 0x1D380))
"""Symbols that Unicode made wide lately."""


class _Table:
    """Clusters met so far and the code points that stand for them; kept for good, so there is an end to them."""

    def __init__(self) -> None:
        self._stand_ins: dict[str, str] = {}
        self._clusters: dict[str, str] = {CONTINUATION: ""}
        self._next = {"narrow": _FIRST_NARROW, "wide": FIRST_WIDE, "unsteady": FIRST_UNSTEADY}
        self._ends = {"narrow": FIRST_WIDE, "wide": _PLANE_END, "unsteady": _END}
        self._lock = threading.Lock()

    def stand_in(self, cluster: str, kind: str) -> str | None:
        """None where there is no room for another."""
        known = self._stand_ins.get(cluster)
        if known is not None:
            return known
        with self._lock:
            code = self._next[kind]
            if code >= self._ends[kind]:
                return None
            self._next[kind] += 1
            self._clusters[chr(code)] = cluster
            return self._stand_ins.setdefault(cluster, chr(code))

    def __contains__(self, stand_in: str) -> bool:
        return stand_in in self._clusters

    def cluster(self, stand_in: str) -> str:
        return self._clusters.get(stand_in, "?")


_TABLE = _Table()


def width_of(char: str) -> int:
    """Cells of one code point: 0 for what combines or is not seen, 2 for what is wide."""
    if unicodedata.category(char) in ("Mn", "Me", "Cf") or any(ord(char) in run for run in _JOINING):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def in_cells(text: str) -> str:
    """``text`` with one character a cell; as it is where it has been so before. What is no text (controls, halves of characters, private code points) becomes
    ``?``; what only tells a terminal in which direction to write is left out."""
    return "".join(_cells(unicodedata.normalize("NFC", text)))


def _cells(text: str) -> Iterator[str]:
    place, end = 0, len(text)
    while place < end:
        start, base = place, text[place]
        place += 1
        if base >= CONTINUATION:
            yield base if base in _TABLE else "?"  # in cells already
            continue
        category = unicodedata.category(base)
        if ord(base) in _FLAG_LETTERS:
            if place < end and ord(text[place]) in _FLAG_LETTERS:
                place += 1
                yield _wide(text[start:place], "unsteady")
            else:
                yield chr(ord(base) - _FLAG_LETTERS.start + ord("A"))
            continue
        if width_of(base) == 0:
            continue  # a mark on nothing
        if category == "Zs":
            yield " " * width_of(base)
            continue
        if category == "Mc" or _grown(base):
            yield _wide(base, "unsteady")
            continue
        if not base.isprintable():
            yield "?"
            continue
        width = width_of(base)
        place, kind = _extent(text, place, base)
        cluster = text[start:place]
        if kind == "unsteady":
            yield _wide(_kept(cluster), kind)
        elif width == 2:
            yield _wide(_kept(cluster), "wide")
        elif len(kept := _kept(cluster)) == 1:
            yield kept
        else:
            yield _TABLE.stand_in(kept, "narrow") or base


def _extent(text: str, place: int, base: str) -> tuple[int, str]:
    """Where the cluster of ``base`` ends, and whether its width is steady."""
    emoji, kind, start = unicodedata.category(base) in ("So", "Sk"), "steady", place
    while place < len(text):
        char = text[place]
        if char == _ZWJ and emoji and place + 1 < len(text) and unicodedata.category(text[place + 1]) == "So":
            kind, place = "unsteady", place + 2
            continue
        if char in (_EMOJI_STYLE, _KEYCAP) or (emoji and ord(char) in _TONES) or unicodedata.category(char) == "Mc":
            kind = "unsteady"
        elif width_of(char):
            break
        place += 1
        if place - start >= 64:  # more is nobody's name
            break
    return place, kind


def _kept(cluster: str) -> str:
    """The cluster without what is not seen, and with no more on it than one can see."""
    joined = len(cluster) > 1 and unicodedata.category(cluster[0]) in ("So", "Sk")
    kept = [cluster[0]]
    for char in cluster[1:]:
        unseen = unicodedata.category(char) == "Cf" and not (joined and char == _ZWJ)
        if not unseen and char != _TEXT_STYLE and len(kept) < (_JOINED_MOST if joined else _MARKS_MOST + 1):
            kept.append(char)
    while kept[-1] == _ZWJ:
        kept.pop()
    return "".join(kept)


def _grown(char: str) -> bool:
    """An emoji or an ideograph that is newer than this Python, or what older terminals take for narrow."""
    code = ord(char)
    newer = unicodedata.category(char) == "Cn" and (0x1F300 <= code <= 0x1FAFF or 0x20000 <= code < 0x40000)
    return newer or any(code in run for run in _GROWN)


def _wide(cluster: str, kind: str) -> str:
    stand_in = _TABLE.stand_in(cluster, kind)
    return "??" if stand_in is None else stand_in + CONTINUATION


def whole(text: str) -> str:
    """``text`` in which halves of what was cut in two are blanks."""
    return _ORPHAN.sub(" ", text)


def spell(text: str) -> str:
    """``text`` in cells as text again."""
    return _STAND_IN.sub(lambda match: _TABLE.cluster(match[0]), text)


def spell_out(text: str) -> str:
    """The same for a terminal, whatever width it gives to clusters. ``text`` may have escape sequences."""
    return _STAND_IN.sub(_steadied, text)


def _steadied(match: re.Match[str]) -> str:
    cluster = _TABLE.cluster(match[0])
    if ord(match[0]) < FIRST_UNSTEADY:
        return cluster
    # Two blanks, for who draws but one; then on from where they end, for who draws more.
    return f"\x1b7  \x1b8\x1b7{cluster}\x1b8\x1b[2C"
