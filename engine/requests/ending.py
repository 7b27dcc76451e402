"""Whether a request ends with the token it has just been given, and why."""

from typing import NamedTuple

from engine.requests.request import FinishReason, Request
from engine.words import one_line


class Ending(NamedTuple):
    """``detail``: what the reason alone does not say, in a few words; None where it says all."""

    reason: FinishReason
    detail: str | None = None


def ending_after(request: Request, token: int, max_model_len: int) -> Ending | None:
    """``token`` is the latest of ``request`` and becomes part of its text; None: it goes on.

    What stops an output is not part of its text. A tokenizer that fails ends this request alone, with an error.
    """
    if token in request.stop_ids:
        return Ending(FinishReason.STOP, request.stop.name(token))
    if request.text is not None:
        try:
            request.text.add(token)
        except Exception as error:
            return Ending(FinishReason.ERROR, f"token {token} could not be made text: {one_line(error)}")
        if request.text.matched is not None:
            return Ending(FinishReason.STOP, f"stop string {request.text.matched!r}")
    if request.output_tokens >= request.max_tokens or len(request.token_ids) >= max_model_len:
        return Ending(FinishReason.LENGTH)
    return None
