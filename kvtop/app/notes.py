"""What the screen says for some seconds in its footer: what has happened, or why a key did nothing."""

from collections.abc import Callable

from panels.footer import FooterPanel

LASTS_S = {"information": 6.0, "warning": 5.0, "error": 15.0}
"""How long the footer says something, by its severity."""


class Notes:
    """One at a time, the latest. ``now``: the viewer's monotonic clock, seconds."""

    def __init__(self, footer: FooterPanel, now: Callable[[], float]) -> None:
        self._footer, self._now = footer, now
        self._until, self._is_hint = float("inf"), False

    def say(self, text: str, severity: str, *, hint: bool = False) -> None:
        """Shows ``text``; empty: the keys again. A ``hint`` is about the panel that has the focus."""
        self._until = self._now() + LASTS_S.get(severity, LASTS_S["warning"]) if text else float("inf")
        self._is_hint = hint and bool(text)
        self._footer.say(text, severity)

    def expire(self, now: float) -> None:
        """Its time may be over."""
        if now > self._until:
            self.say("", "")

    def key_pressed(self) -> None:
        """What was said of the key before is over; what has happened stays for its time."""
        if self._is_hint:
            self._until, self._is_hint = float("inf"), False
            self._footer.hide()
        elif self._footer.note is None:
            self._footer.hide()

    def focus_moved(self) -> None:
        if self._is_hint:
            self.say("", "")
