"""What viewers may read of one request with ``--expose-text``, and how far into it the tokens of each full block reach."""

from dataclasses import dataclass

from engine.requests.output_text import OutputText, TokenBytes
from engine.requests.request import Request


class ExposedText:
    """Reads each token of a request once.

    ``prompt``: its text; None where the tokenizer fails at it, which is no reason for the request to end. ``ends[i]``: so many
    characters of prompt and output together are of the tokens of logical blocks up to ``i``; a character over their edge is
    of the later one. Of full blocks only.
    """

    def __init__(self, request: Request, token_bytes: TokenBytes, block_size: int) -> None:
        self._token_bytes, self._block_size = token_bytes, block_size
        self.ends: list[int] = []
        self.prompt: str | None = None
        self._fed, self._takeovers = 0, request.takeovers
        self._before = 0
        self._text = OutputText(token_bytes)
        try:
            self._feed(request.token_ids[: request.prompt_tokens])
        except Exception:
            self.ends = []
        else:
            self._text.finish()
            self.prompt = self._text.text
            self._begin_output(request)

    def follow(self, request: Request) -> None:
        """Takes in the tokens that have come since."""
        if self.prompt is None:
            return
        if request.takeovers != self._takeovers or len(request.token_ids) < self._fed:
            self._takeovers = request.takeovers
            self._begin_output(request)
        try:
            self._feed(request.token_ids[self._fed :])
        except Exception:
            self._fed = len(request.token_ids)  # of what the tokenizer cannot say, nothing is told

    def _begin_output(self, request: Request) -> None:
        assert self.prompt is not None
        del self.ends[request.prompt_tokens // self._block_size :]
        self._fed, self._before = request.prompt_tokens, len(self.prompt)
        self._text = OutputText(self._token_bytes)

    def _feed(self, tokens: list[int]) -> None:
        for token in tokens:
            self._text.add(token)
            self._fed += 1
            if self._fed % self._block_size == 0:
                self.ends.append(self._before + len(self._text.text))


@dataclass(frozen=True, slots=True)
class TextSent:
    """How much was told of a request's text: characters of its output, ends of blocks; good for as long as its output only
    grows, which is while ``takeovers`` stays."""

    characters: int = 0
    ends: int = 0
    takeovers: int = 0
