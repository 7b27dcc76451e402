"""From a request's body to requests in the engine: read, checked, written as tokens, and let in where there is room."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.http.bodies import Body, parse_body
from engine.http.bridge import Outputs, Wakeups
from engine.http.chat import ChatRequest
from engine.http.completions import CompletionRequest
from engine.http.errors import ApiError, busy, invalid, refused, unavailable
from engine.http.form import Form
from engine.http.gate import Served
from engine.http.schema import read_fields
from engine.http.settings import HttpLimits
from engine.requests.retention import Retention
from engine.requests.sampling import Sampling
from engine.requests.stopping import StopRules
from engine.serving.handle import RequestHandle
from engine.serving.inbox import EngineStopped

Asked = CompletionRequest | ChatRequest


@dataclass(frozen=True, slots=True)
class Order:
    """A body that can be served: what was asked, its prompts as tokens, and what the engine is asked for each."""

    asked: Asked
    prompts: list[list[int]]
    max_tokens: list[int]
    beam: int | None
    sampling: Sampling
    stop: StopRules
    retention: list[Retention]

    @property
    def requests(self) -> int:
        """How many the engine gets, samples and beams each counted."""
        return len(self.prompts) * (self.beam or self.asked.n)


def order(kind: type[Asked], body: Body, served: Served, limits: HttpLimits) -> Order:
    """Raises `ApiError` naming the field that cannot be served."""
    asked = read_fields(kind, parse_body(body, limits))
    check_model(asked.model, served)
    try:
        sampling, stop, retention, beam = asked.sampling(), asked.stop_rules(), asked.retentions(), asked.beam
        _check_choices(asked.prompt_count, asked.n, limits)
        prompts = asked.prompts(served.text)
    except ValueError as error:
        raise refused(error) from None
    rooms = [_room(tokens, asked, served, limits) for tokens in prompts]
    return Order(asked, prompts, rooms, beam, sampling, stop, retention)


def check_model(name: str | None, served: Served) -> None:
    if name not in (None, "", *served.names):
        raise ApiError(
            404,
            f"model: {name!r:.80} is not served here; {served.names[0]!r} is",
            param="model",
            code="model_not_found",
        )


def _check_choices(prompts: int, n: int, limits: HttpLimits) -> None:
    if (count := prompts * n) > limits.choices:
        field = "n" if prompts == 1 else "prompt"
        raise invalid(f"{field}: {count} outputs are too many for one request; the most is {limits.choices}", field)


def _room(tokens: Sequence[int], asked: Asked, served: Served, limits: HttpLimits) -> int:
    """Output tokens that a prompt may get. Raises `ApiError` where it and they have no room in the context."""
    length, context, field = len(tokens), served.context, asked.PROMPT_FIELD
    if not length:
        raise invalid(f"{field}: a prompt has one token at least", field)
    most = limits.prompt_tokens or context - 1
    if length > min(most, context - 1):
        raise invalid(
            f"{field}: {length} tokens are too many; the most is {min(most, context - 1)}",
            field,
            "context_length_exceeded",
        )
    wanted = asked.output_tokens
    if wanted is None:
        return context - length
    if length + wanted > context:
        name = asked.output_field
        raise invalid(
            f"{name}: {wanted} output tokens and {length} of the prompt are more than the {context} that there is room for",
            name,
            "context_length_exceeded",
        )
    return wanted


def let_in(
    order: Order, served: Served, limits: HttpLimits, name: str | None, wakeups: Wakeups, again: int = 1
) -> Outputs:
    """The engine gets the requests, under ``name`` where the client gave one; ``again``: seconds after which one for which
    there is no room may come again. Raises `ApiError` where the queue is full or one
    of them is refused; then it gets none."""
    if order.requests > limits.queue:
        raise invalid(f"n: {order.requests} outputs are more than the {limits.queue} that can wait", "n")
    waiting = served.server.queued
    if waiting + order.requests > limits.queue:
        raise busy(f"{waiting} requests wait already, and {limits.queue} is the most", again)
    asked = order.asked
    handles: list[RequestHandle] = []
    try:
        for number, (tokens, most) in enumerate(zip(order.prompts, order.max_tokens, strict=True)):
            handles.append(
                served.server.submit(
                    tokens,
                    most,
                    label=asked.LABEL,
                    request_id=name if name is None or len(order.prompts) == 1 else f"{name}-{number}",
                    priority=asked.priority,
                    sampling=order.sampling,
                    stop=order.stop,
                    retention=order.retention,
                    n=1 if order.beam else asked.n,
                    cache_salt=asked.cache_salt,
                    beam=order.beam,
                    length_penalty=asked.length_penalty,
                )
            )
    except ValueError as error:
        _take_back(handles)
        raise refused(error) from None
    except EngineStopped as error:
        raise unavailable(str(error), "stopped") from None
    return Outputs(handles, wakeups)


def _take_back(handles: Sequence[RequestHandle]) -> None:
    for handle in handles:
        handle.cancel()


def form_of(order: Order, served: Served, outputs: Outputs, wanted: str | None, created: int) -> tuple[Form, str]:
    """How its answer is written, and its id: that of its request, on the screen too; of several what the client ``wanted``,
    else the first's."""
    asked, name, model = order.asked, outputs.handles[0].id, order.asked.model or served.names[0]
    if len(outputs.handles) > 1 and wanted is not None:
        name = wanted
    return asked.form(served.text, name, model, created, order.prompts), name
