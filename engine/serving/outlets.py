"""What requests have put out goes to those who read it: once a turn of the loop, when all that changed has settled."""

from dataclasses import dataclass, field

from engine.requests.request import FinishReason, Request, RequestState
from engine.requests.stream import OutputStream, Usage


@dataclass(slots=True, eq=False)
class _Outlet:
    """One stream and, by index, the requests whose outputs it carries, with how far each has been told."""

    stream: OutputStream
    members: list[Request]
    tokens_told: list[int] = field(init=False)
    text_told: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.tokens_told = [0] * len(self.members)
        self.text_told = [0] * len(self.members)

    def tell(self, index: int) -> None:
        request = self.members[index]
        ended = request.state is RequestState.FINISHED
        if request.beam is not None and not ended:
            return  # Which tokens a beam has is open until the search is over.
        told = request.prompt_tokens + self.tokens_told[index]
        tokens = request.token_ids[told:]
        text = "" if request.text is None else request.text.text[self.text_told[index] :]
        self.stream.put(index, tokens, text, request.take_logprobs())
        self.tokens_told[index] += len(tokens)
        self.text_told[index] += len(text)
        if ended:
            usage = Usage(request.prompt_tokens, request.cached, request.output_tokens, request.log_probability)
            reason = request.finish_reason or FinishReason.ABORT
            detail = request.finish_detail or self.members[0].finish_detail
            self.stream.end(index, str(reason), detail, usage, request.stopped_by)


class Outlets:
    """The streams of live requests. Opened and flushed on the engine's thread; closed from any."""

    def __init__(self) -> None:
        self._open: dict[int, _Outlet] = {}
        """By the num of the first of their requests."""
        self._news: dict[int, tuple[_Outlet, int]] = {}
        """Requests that have something to tell, by num."""

    def __len__(self) -> int:
        return len(self._open)

    def open(self, request: Request, stream: OutputStream) -> None:
        """From now on ``stream`` is told of ``request``, which has not run yet, and of its samples or beams."""
        outlet = _Outlet(stream, [request, *request.samples])
        self._open[request.num] = outlet
        for index, member in enumerate(outlet.members):
            member.on_output = lambda changed, index=index: self._changed(outlet, index, changed)

    def flush(self) -> None:
        """Tell what has changed since the last call."""
        news, self._news = self._news, {}
        for outlet, index in news.values():
            outlet.tell(index)
            if outlet.stream.ended:
                self._open.pop(outlet.members[0].num, None)

    def close(self, reason: FinishReason, detail: str) -> None:
        """Nothing more comes for anybody, and this is why."""
        for outlet in list(self._open.values()):
            outlet.stream.close(str(reason), detail)
        self._open.clear()

    def _changed(self, outlet: _Outlet, index: int, request: Request) -> None:
        self._news[request.num] = outlet, index
