"""What a controller may ask of an engine, and the answer. Each takes effect between two iterations."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from kvtop.protocol.base import Message
from kvtop.protocol.hello import PolicyValue


class Command(Message):
    """Base: ``id`` is the asker's own and comes back in the reply.

    ``run`` says which life of the engine the asker looked at: requests are named by numbers that start again with each.
    """

    id: str = Field(min_length=1, max_length=64, description="the asker's own; comes back in the reply")
    run: str | None = Field(
        default=None,
        max_length=64,
        description="the run that is meant, as the hello names it; refused where another one goes on. Absent: any",
    )

    def missed_run(self, run: str) -> str | None:
        """Why this command is not for ``run``, in a sentence that names both runs; None where it is, or may be."""
        if self.run is None or self.run == run:
            return None
        meant, now = _short(self.run, run)
        return f"this was meant for run {meant} of the engine, which is over; what goes on now is run {now}"


def _short(*runs: str) -> list[str]:
    """Names of runs for a sentence: eight characters, where those tell them apart."""
    cut = [run[:8] for run in runs]
    return cut if len(set(cut)) == len(runs) else list(runs)


class SetPolicy(Command):
    """Change policy axes together. ``dry_run`` answers what would happen and changes nothing."""

    type: Literal["set_policy"] = "set_policy"
    changes: dict[str, PolicyValue] = Field(
        min_length=1, max_length=32, description="axis -> new value, as the hello's axes allow"
    )
    transition: Literal["drain", "preempt"] = Field(
        default="drain",
        description="where the present state breaks the new rule: admit nothing until it fits, or preempt down to what fits",
    )
    dry_run: bool = Field(default=False, description="answer what would happen, and change nothing")


class Abort(Command):
    """End one request; its blocks are released, its hashed blocks stay cached."""

    type: Literal["abort"] = "abort"
    request: int | str = Field(description="num or id")


class Preempt(Command):
    """Preempt one running request now; it is queued again and recomputed."""

    type: Literal["preempt"] = "preempt"
    request: int | str = Field(description="num or id")


class Pause(Command):
    """Stop scheduling; KV stays in place."""

    type: Literal["pause"] = "pause"


class Resume(Command):
    """Schedule again after a pause."""

    type: Literal["resume"] = "resume"


class ResetPrefixCache(Command):
    """Forget the content of all cached blocks; blocks in use keep theirs, but match nobody new."""

    type: Literal["reset_prefix_cache"] = "reset_prefix_cache"


class Pin(Command):
    """Never evict what the prefix cache holds of this request's complete blocks, also when it is finished; refused
    beyond the policy ``pin_limit``. Pinning it again takes in what it has computed since."""

    type: Literal["pin"] = "pin"
    request: int | str = Field(description="num or id, of a live request or a finished one that is still shown")


class Unpin(Command):
    """Let the blocks that were pinned for this request be evicted again."""

    type: Literal["unpin"] = "unpin"
    request: int | str = Field(description="num or id, as it was pinned")


class Compact(Command):
    """Move blocks with content to the lowest free places; with a range, out of it to any free places, so that the range
    becomes free. Done over the next iterations, at most ``compaction_moves`` blocks each; an event tells when it ends."""

    type: Literal["compact"] = "compact"
    first: int | None = Field(default=None, ge=0, description="first block of the range; absent: 0, if end is given")
    end: int | None = Field(
        default=None, ge=1, description="first block after the range; absent: end of the pool, if first is given"
    )


class Dump(Command):
    """Write what the flight recorder holds, the last minutes, to a file on the engine's host; answered with its path when it
    is written. Refused where there is no recorder, or a file is being written already."""

    type: Literal["dump"] = "dump"


class RequestKeyframe(Command):
    """On the observing socket: a keyframe for this viewer. On the control socket: for every viewer."""

    type: Literal["keyframe"] = "keyframe"
    id: str = Field(
        default="keyframe",
        min_length=1,
        max_length=64,
        description="the asker's own; comes back in the reply on the control socket",
    )


AnyCommand = Annotated[
    SetPolicy | Abort | Preempt | Pause | Resume | ResetPrefixCache | Pin | Unpin | Compact | Dump | RequestKeyframe,
    Field(discriminator="type"),
]

COMMANDS: dict[str, type[Command]] = {
    command.model_fields["type"].default: command for command in get_args(get_args(AnyCommand)[0])
}
"""Every command by its ``type`` on the wire."""


class Reply(Message):
    """The answer to one command, sent when it took effect or was refused."""

    type: Literal["reply"] = "reply"
    id: str = Field(description="of the command")
    ok: bool = Field(description="false: refused, nothing changed")
    iteration: int | None = Field(default=None, description="first iteration under the new rule")
    message: str = Field(default="", max_length=1000, description="what happened, or why not, in a sentence")
    effects: list[str] = Field(default_factory=list, description="what it does or would do, to whom")
    file: str | None = Field(
        default=None, max_length=4096, description="path of a file that it wrote, on the engine's host"
    )
