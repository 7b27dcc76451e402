"""A terminal of a few lines, for checking that two streams of bytes paint the same screen."""

import re
from typing import Final

from kvtop.term.sgr import OFF, PLAIN, Look

_PIECE: Final = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|([^\x1b])", re.DOTALL)
_UNSET: Final = {"22": ("1", "2"), **{off: (on,) for on, off in OFF.items() if off != "22"}}


class Replay:
    """Understands cursor movement, SGR and single-width text, and nothing else.

    Attributes:
        cells: A character and its look for every place of the screen, row by row.
    """

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.cells: list[list[tuple[str, Look]]] = [[(" ", PLAIN)] * width for _ in range(height)]
        self._x = self._y = 0
        self._look = PLAIN

    def feed(self, stream: str) -> "Replay":
        """Draws ``stream``.

        Raises:
            ValueError: It holds something this terminal does not know.
        """
        at = 0
        for match in _PIECE.finditer(stream):
            if match.start() != at:
                raise ValueError(f"unknown sequence at {at}: {stream[at : at + 12]!r}")
            at = match.end()
            params, final, char = match.groups()
            if char is not None:
                self._char(char)
            elif final == "m":
                self._look = _sgr(self._look, params)
            else:
                self._cursor(final, [int(p) if p else 0 for p in params.split(";")])
        if at != len(stream):
            raise ValueError(f"unknown sequence at {at}: {stream[at : at + 12]!r}")
        return self

    def shown(self) -> list[list[tuple[str, Look]]]:
        """The cells as the eye tells them apart: blank paper is blank whatever colour its ink would have."""
        return [
            [(" ", PLAIN) if char == " " and look.leaves_blanks_alone else (char, look) for char, look in row]
            for row in self.cells
        ]

    def _char(self, char: str) -> None:
        if char == "\b":
            self._x = max(0, min(self._x, self.width - 1) - 1)
        elif char == "\r":
            self._x = 0
        elif char == "\n":
            self._x, self._y = 0, min(self._y + 1, self.height - 1)
        else:
            self.cells[self._y][min(self._x, self.width - 1)] = (char, self._look)
            self._x += 1

    def _cursor(self, final: str, numbers: list[int]) -> None:
        count = max(1, numbers[0])
        if final == "H":
            self._y = count - 1
            self._x = max(1, numbers[1]) - 1 if len(numbers) > 1 else 0
        elif final == "A":
            self._y -= count
        elif final == "B":
            self._y += count
        elif final == "C":
            self._x += count
        elif final == "D":
            self._x -= count
        elif final == "G":
            self._x = count - 1
        else:
            raise ValueError(f"unknown sequence CSI {final}")
        self._x = min(max(self._x, 0), self.width - 1)
        self._y = min(max(self._y, 0), self.height - 1)


def _sgr(look: Look, params: str) -> Look:
    fg, bg, attrs = look
    queue = params.split(";")
    while queue:
        code = queue.pop(0)
        if code in ("", "0"):
            fg, bg, attrs = PLAIN
        elif code in ("38", "48"):
            length = 2 if queue[0] == "5" else 4
            colour = ";".join([code, *queue[:length]])
            del queue[:length]
            fg, bg = (colour, bg) if code == "38" else (fg, colour)
        elif code in ("39", "49"):
            fg, bg = ("", bg) if code == "39" else (fg, "")
        elif len(code) > 1 and code[:-1] in ("3", "9"):
            fg = code
        elif len(code) > 1 and code[:-1] in ("4", "10"):
            bg = code
        elif code in _UNSET:
            attrs = tuple(attr for attr in attrs if attr not in _UNSET[code])
        elif code not in attrs:
            attrs = tuple(sorted((*attrs, code), key=int))
    return Look(fg, bg, attrs)
