"""The engine as an object: prompts in, outputs out, under vLLM's names. It can be watched while it works."""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

from engine.config import EngineConfig
from engine.llm.params import BeamSearchParams, SamplingParams
from engine.llm.prompts import Prompt, ReadPrompt, read_prompts
from engine.llm.results import BeamSearchOutput, RequestOutput, beam_output, request_output
from engine.llm.session import LLMError, Session, own_name
from engine.model.tokenizer import TextTokenizer
from engine.requests.stopping import StopRules
from engine.requests.stream import Output
from engine.serving.handle import RequestHandle
from engine.serving.inbox import EngineStopped
from kvtop.protocol import PolicyValue

Messages = Sequence[Mapping[str, Any]]
"""A conversation: ``role`` and ``content`` of each turn."""


Size = TypeVar("Size", int, float)


class LLM:
    """A model and an engine of its own, in a thread. ``kvtop attach NAME`` shows it from the start until `close`.

    Any thread may use it, several at once too; their requests run in common batches.
    """

    def __init__(
        self,
        model: str = "smollm2",
        *,
        name: str | None = None,
        max_model_len: int | None = None,
        num_gpu_blocks_override: int | None = None,
        gpu_memory_utilization: float | None = None,
        block_size: int | None = None,
        kv_cache_dtype: str = "auto",
        enable_prefix_caching: bool | None = None,
        max_num_seqs: int | None = None,
        max_num_batched_tokens: int | None = None,
        policies: Mapping[str, PolicyValue] | None = None,
        seed: int = 0,
        device: str = "auto",
        expose_text: bool = False,
        **settings: Any,
    ) -> None:
        """``model``: smollm2, random (noise, for tests), or a path. ``name``: of its sockets; ``llm-PID`` or the like unless given.

        ``num_gpu_blocks_override``: blocks of the pool; ``gpu_memory_utilization``: instead, the share of the memory there
        is, a CPU's too, that this engine takes. ``enable_prefix_caching``, ``max_num_seqs`` and
        ``max_num_batched_tokens`` are the policies prefix_cache, max_running and token_budget; ``policies`` has any of
        them by name. ``expose_text``: viewers may read prompts and outputs. ``settings``: further fields of
        `engine.config.EngineConfig`, such as ``host_blocks``.

        Raises ValueError for a setting that makes no sense and `LLMError` where the engine cannot be made.
        """
        named = {
            "prefix_cache": enable_prefix_caching,
            "max_running": max_num_seqs,
            "token_budget": max_num_batched_tokens,
        }
        given = {axis: value for axis, value in named.items() if value is not None}
        for axis in given.keys() & (policies or {}).keys():
            raise ValueError(f"policies: {axis} is given twice, by its argument too")
        unknown = settings.keys() - EngineConfig.__dataclass_fields__.keys()
        if unknown:
            raise TypeError(f"LLM: {min(unknown)!r} is no setting of this engine")
        config = EngineConfig(
            model=str(model),
            name=own_name() if name is None else name,
            max_model_len=_given("max_model_len", max_model_len),
            blocks=_given("num_gpu_blocks_override", num_gpu_blocks_override),
            memory_fraction=_given("gpu_memory_utilization", gpu_memory_utilization),
            block_size=_given("block_size", block_size),
            kv_dtype={"fp8": "fp8_e4m3"}.get(kv_cache_dtype, kv_cache_dtype),
            policies={**given, **(policies or {})},
            seed=seed,
            device=device,
            expose_text=expose_text,
            **settings,
        )
        self._session = Session(config)
        self.name = config.name
        # At the end of the program, or when nobody has it any more: its thread holds the session alone.
        self._finalizer = weakref.finalize(self, self._session.close)

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        use_tqdm: object = True,
        *,
        priority: Sequence[int] | None = None,
    ) -> list[RequestOutput]:
        """The outputs of each prompt, in the order of the prompts. All run at once, as far as the pool has room.

        ``sampling_params``: for all, or one for each. ``priority``: one for each. ``use_tqdm`` is taken and means nothing:
        progress is what the screen shows. When interrupted, all of it is cancelled.

        Raises ValueError, naming the place, for what could never be served, and cancels the others; `LLMError` where the
        engine fails or is closed. An output that fails alone has the finish reason error.
        """
        return self._run(read_prompts(prompts, self.get_tokenizer()), sampling_params, priority)

    def chat(
        self,
        messages: Messages | Sequence[Messages],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        use_tqdm: object = True,
        *,
        add_generation_prompt: bool = True,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        priority: Sequence[int] | None = None,
    ) -> list[RequestOutput]:
        """As `generate`, of one conversation or several, by the model's chat template, which reads
        ``chat_template_kwargs`` too."""
        tokenizer = self.get_tokenizer()
        if (template := tokenizer.chat_template) is None:
            raise ValueError("messages: this model has no chat template; use generate")
        several = [messages] if messages and isinstance(messages[0], Mapping) else messages
        prompts = []
        for conversation in several:
            rendered = template.render(
                conversation,  # type: ignore[arg-type]
                add_generation_prompt=add_generation_prompt,
                **(chat_template_kwargs or {}),
            )
            prompts.append(ReadPrompt(tokenizer.encode_chat(rendered), str(rendered)))
        return self._run(prompts, sampling_params, priority)

    def beam_search(
        self, prompts: Prompt | Sequence[Prompt], params: BeamSearchParams, use_tqdm: object = True
    ) -> list[BeamSearchOutput]:
        """The best sequences of each prompt, ``params.beam_width`` of them. Raises as `generate`."""
        read = read_prompts(prompts, self.get_tokenizer())
        stop = StopRules(ignore_eos=params.ignore_eos)
        handles: list[RequestHandle] = []
        try:
            for place, prompt in enumerate(read):
                with _naming(place):
                    handle = self._session.server.submit(
                        prompt.token_ids,
                        params.max_tokens,
                        stop=stop,
                        beam=params.beam_width,
                        length_penalty=params.length_penalty,
                        cache_salt=prompt.cache_salt,
                    )
                handles.append(handle)
            outputs = self._wait(handles)
        except BaseException as error:
            self._cancel(handles, error)
            raise
        tokenizer = self.get_tokenizer()
        return [beam_output(prompt, each, tokenizer) for prompt, each in zip(read, outputs, strict=True)]

    def get_tokenizer(self) -> TextTokenizer:
        """Text to token ids and back."""
        return self._session.tokenizer

    def close(self) -> None:
        """End the engine and its sockets, and give its memory back. Safe to repeat; happens by itself at the end."""
        self._finalizer()

    def __enter__(self) -> "LLM":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _run(
        self,
        prompts: list[ReadPrompt],
        given: SamplingParams | Sequence[SamplingParams] | None,
        priority: Sequence[int] | None,
    ) -> list[RequestOutput]:
        params = _one_each("sampling_params", given, prompts, SamplingParams())
        ranks = _one_each("priority", priority, prompts, 0)
        handles: list[RequestHandle] = []
        try:
            for place, (prompt, each, rank) in enumerate(zip(prompts, params, ranks, strict=True)):
                handles.append(self._submit(place, prompt, each, rank))
            outputs = self._wait(handles)
        except BaseException as error:
            self._cancel(handles, error)
            raise
        tokenizer = self.get_tokenizer()
        return [
            request_output(handle.id, prompt, done, each, tokenizer)
            for handle, prompt, done, each in zip(handles, prompts, outputs, params, strict=True)
        ]

    def _submit(self, place: int, prompt: ReadPrompt, params: SamplingParams, priority: int) -> RequestHandle:
        server = self._session.server
        room = server.max_model_len - len(prompt.token_ids)
        with _naming(place):
            return server.submit(
                prompt.token_ids,
                max(1, room) if params.max_tokens is None else params.max_tokens,
                priority=priority,
                sampling=params.sampling(),
                stop=params.stop_rules(),
                n=params.n,
                cache_salt=prompt.cache_salt,
            )

    def _wait(self, handles: Sequence[RequestHandle]) -> list[list[Output]]:
        outputs = [handle.result() for handle in handles]
        if any(output.finish_reason in ("abort", "error") for each in outputs for output in each):
            _ = self._session.server  # where that is what ended them
        return outputs

    def _cancel(self, handles: Sequence[RequestHandle], error: BaseException) -> None:
        for handle in handles:
            handle.cancel()
        if isinstance(error, EngineStopped):
            raise LLMError(self._session.failure or str(error)) from None


@contextmanager
def _naming(place: int) -> Iterator[None]:
    """What is wrong with a prompt, with its place among all."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"prompts[{place}]: {error}") from None


def _given(name: str, size: Size | None) -> Size:
    """0 where none was given, which to the engine means that it chooses. Raises ValueError for a 0 that was given."""
    if size is None:
        return 0
    if not size > 0:
        raise ValueError(f"{name}: {size} is not above 0; leave it out, and the engine chooses")
    return size


def _one_each(field: str, given: Any, prompts: Sequence[ReadPrompt], default: Any) -> list[Any]:
    if given is None or not isinstance(given, Sequence):
        return [default if given is None else given] * len(prompts)
    if len(given) != len(prompts):
        raise ValueError(f"{field}: {len(given)} for {len(prompts)} prompts; give one for all, or one for each")
    return list(given)
