"""An independent terminal (pyte) as a judge of byte streams."""

import pyte

Cell = tuple[object, ...]


def terminal(width: int, height: int) -> tuple[pyte.Screen, pyte.Stream]:
    """A terminal without line wrap, as Textual sets it."""
    screen = pyte.Screen(width, height)
    screen.reset_mode(pyte.modes.DECAWM >> 5, private=True)
    return screen, pyte.Stream(screen)


def visible(screen: pyte.Screen) -> list[list[Cell]]:
    """What the eye sees: a blank has no ink, so neither its colour nor its weight."""
    return [[_visible(screen.buffer[y][x]) for x in range(screen.columns)] for y in range(screen.lines)]


def _visible(cell: pyte.screens.Char) -> Cell:
    if cell.data == " " and not cell.underscore and not cell.strikethrough and not cell.reverse:
        return (" ", cell.bg)
    return tuple(cell)


def differences(ours: list[list[Cell]], theirs: list[list[Cell]]) -> list[str]:
    """The first places at which two screens differ, for a message."""
    found = []
    for y, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        for x, (one, other) in enumerate(zip(a, b, strict=True)):
            if one != other:
                found.append(f"row {y} column {x}: {one} instead of {other}")
    return found[:5]
