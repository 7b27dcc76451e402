"""What is sent: sessions of one or several turns, all of them following from a seed."""

import hashlib
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kvtop.load.prompts import Prompt, Segment, prompt_tokens
from kvtop.load.traces import MOONCAKE_BLOCK, Trace, TraceRow
from kvtop.mixes import GROUPS, TEMPERATURE, Mix, Scale

Lengths = tuple[int, int]
"""The least and the most tokens; each length between is as likely."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a user says next: ``think`` seconds after the answer before, for an answer of ``output`` tokens."""

    user: Prompt
    output: int
    think: float = 0.0


@dataclass(frozen=True, slots=True)
class Extensions:
    """What only some servers understand."""

    priority: int = 0
    cache_salt: str = ""
    beams: int | None = None
    keep: int | None = None
    """Retention priority of the prompt's head."""
    keep_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation: a head (a system prompt, which others may share), and its turns, each with all that went before."""

    label: str
    head: Prompt
    turns: tuple[Turn, ...]
    samples: int = 1
    temperature: float | None = None
    """None: as the run has it."""
    extensions: Extensions = Extensions()

    @property
    def most_tokens(self) -> int:
        """Of its longest request: prompt and answers."""
        return prompt_tokens(self.head) + sum(prompt_tokens(turn.user) + turn.output for turn in self.turns)


@dataclass(frozen=True)
class Plan:
    """``sessions()`` begins anew each time, with the same sessions; they may be endless."""

    describe: str
    sessions: Callable[[], Iterator[Session]]
    unit: str = "requests"
    """What arrives: a session, by the name that users have for it."""
    left_out: int = 0
    """Requests of the trace that the server's context cannot hold."""

    def digest(self, most: int = 1000) -> str:
        """Tells whether two runs sent the same: of the first ``most`` sessions."""
        hashed = hashlib.sha256()
        for session in itertools.islice(self.sessions(), most):
            hashed.update(repr(session).encode())
        return hashed.hexdigest()[:16]


def synthetic(prompt: Lengths, output: Lengths, *, shared: int, groups: int, seed: int) -> Plan:
    """Single requests; ``shared`` tokens of each prompt are those of one of ``groups`` system prompts."""

    def sessions() -> Iterator[Session]:
        draw = random.Random(f"lengths {seed}")
        for number in itertools.count():
            head = _head(draw, shared, groups, seed)
            own = max(1, draw.randint(*prompt) - shared)
            turn = Turn((Segment(f"{seed} own {number}", own),), draw.randint(*output))
            yield Session("", head, (turn,))

    heads = f", {shared} of them shared in {groups} group{'s' if groups > 1 else ''}" if shared else ""
    return Plan(f"prompts of {_between(prompt)} tokens{heads}, {_between(output)} out", sessions)


def chats(
    turns: Lengths, prompt: Lengths, output: Lengths, *, shared: int, groups: int, think: float, seed: int
) -> Plan:
    """Conversations: a system prompt of ``shared`` tokens, turns with everything said before, thinking times with mean
    ``think`` s (exponential)."""

    def sessions() -> Iterator[Session]:
        draw = random.Random(f"chats {seed}")
        for number in itertools.count():
            said = tuple(
                Turn(
                    (Segment(f"{seed} chat {number} turn {turn}", draw.randint(*prompt)),),
                    draw.randint(*output),
                    draw.expovariate(1 / think) if turn and think else 0.0,
                )
                for turn in range(draw.randint(*turns))
            )
            yield Session("chat", _head(draw, shared, groups, seed), said)

    return Plan(
        f"chats of {_between(turns)} turns, {_between(prompt)} tokens in and {_between(output)} out a turn, system prompt of "
        f"{shared} tokens in {groups} group{'s' if groups > 1 else ''}, {think:g} s to think",
        sessions,
        "conversations",
    )


def mixed(mix: Mix, scale: Scale, *, seed: int) -> Plan:
    """The classes of a mix as often as it has them, at a scale."""

    def tokens(at_full_scale: int) -> int:
        return max(1, round(at_full_scale * scale.prompt))

    def sessions() -> Iterator[Session]:
        draw = random.Random(f"mix {seed}")
        weights = [kind.weight for kind in mix.classes]
        for number in itertools.count():
            kind = draw.choices(mix.classes, weights)[0]
            head = _head(draw, tokens(kind.shared), GROUPS, seed) if kind.shared else ()
            own = max(1, tokens(kind.prompt) - prompt_tokens(head))
            salt = f"tenant {draw.randrange(kind.tenants)}" if kind.tenants else ""
            yield Session(
                kind.label,
                head,
                (Turn((Segment(f"{seed} own {number}", own),), max(2, round(kind.output * scale.output))),),
                kind.samples,
                TEMPERATURE if kind.samples > 1 else None,
                Extensions(kind.priority, salt, kind.beams, kind.keep, kind.keep_seconds),
            )

    classes = ", ".join(f"{c.label} {c.prompt}+{c.output}" for c in mix.classes)
    return Plan(f"{mix.name} {classes} ({mix.note}); {scale.describe()}", sessions)


def traced(trace: Trace, length_scale: float, *, context: int | None, seed: int) -> tuple[Plan, list[float]]:
    """The requests of a trace, lengths times ``length_scale``, and their times in seconds, unscaled.

    Those above ``context`` tokens (None: unknown) are left out and counted.
    """
    fitting = [
        (row.at, session)
        for number, row in enumerate(trace.rows)
        if (session := _of_row(row, number, length_scale, seed)).most_tokens <= (context or session.most_tokens)
    ]
    sessions = [session for _, session in fitting]
    plan = Plan(
        f"trace {trace.name} ({trace.format}), lengths x{length_scale:g}",
        lambda: iter(sessions),
        left_out=len(trace.rows) - len(fitting),
    )
    return plan, [at for at, _ in fitting]


def _of_row(row: TraceRow, number: int, scale: float, seed: int) -> Session:
    def tokens(recorded: int) -> int:
        return max(1, round(recorded * scale))

    if row.blocks is None:
        user: Prompt = (Segment(f"{seed} row {number}", tokens(row.prompt)),)
    else:
        user = tuple(
            Segment(f"{seed} block {block}", tokens(size))
            for block, start in zip(row.blocks, range(0, max(1, row.prompt), MOONCAKE_BLOCK), strict=False)
            if (size := min(MOONCAKE_BLOCK, row.prompt - start)) > 0
        ) or (Segment(f"{seed} row {number}", 1),)
    return Session("", (), (Turn(user, tokens(row.output)),))


def _head(draw: random.Random, shared: int, groups: int, seed: int) -> Prompt:
    return (Segment(f"{seed} head {draw.randrange(groups)}", shared),) if shared else ()


def _between(lengths: Lengths) -> str:
    return str(lengths[0]) if lengths[0] == lengths[1] else f"{lengths[0]} to {lengths[1]}"
