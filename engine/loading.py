"""The model that a configuration asks for, on the device that it asks for, and what viewers are told of both."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from engine.config import EngineConfig
from engine.footprint.plan import DoesNotFit
from engine.memory.window import describe_windows, parse_windows
from engine.model.errors import ModelError
from engine.model.fetch import FetchError, Progress, ensure_model
from engine.model.load import SMOLLM2_SHAPE, LoadedModel, load_model, random_model, with_windows
from engine.pool_size import check_weights
from kvtop.protocol import ModelFacts

MODELS_HINT = "give smollm2, random, or the path of a GGUF file or a Hugging Face folder"


class BuildError(RuntimeError):
    """The engine cannot be put together. The text says why, ``hint`` what to do next, ``code`` is the exit code: 2 where
    what was asked for is wrong whatever the machine and the model are."""

    def __init__(self, why: str, hint: str = "", code: int = 1) -> None:
        super().__init__(why)
        self.hint, self.code = hint, code


def load(
    config: EngineConfig,
    device: str,
    progress: Callable[[str, int, int | None], None],
    say: Callable[[str], None],
    *,
    fallback_random: bool,
) -> tuple[LoadedModel, str | None]:
    """The model, with the windows asked for laid over its layers, and what the screen must say about it. Raises
    `BuildError`."""
    return _with_windows(config, *_model(config, device, progress, say, fallback_random))


def _model(
    config: EngineConfig,
    device: str,
    progress: Callable[[str, int, int | None], None],
    say: Callable[[str], None],
    fallback_random: bool,
) -> tuple[LoadedModel, str | None]:
    """The model, and what the screen must say about it."""
    if config.model == "random":
        return random_model(seed=config.seed, device=device), "random weights: the text is noise, the paging is real"
    try:
        if config.model == "smollm2":
            path = ensure_model(lambda p: _forward(p, progress))
        else:
            path = Path(config.model).expanduser()
            if not (path.is_file() or path.is_dir()):
                raise BuildError(f"no model at {path}", MODELS_HINT)
        say("loading the model")
        return load_model(path, device, look=partial(check_weights, torch.device(device))), None
    except FetchError as error:
        if not fallback_random:
            raise BuildError(str(error), error.hint) from None
        notice = f"random weights, because the model could not be fetched: {error}"[:500]
        say(notice)
        return random_model(SMOLLM2_SHAPE, seed=config.seed, device=device), notice
    except ModelError as error:
        raise BuildError(str(error), MODELS_HINT) from None
    except DoesNotFit as error:
        raise BuildError(f"{config.model} {error}", error.hint) from None


def _with_windows(config: EngineConfig, model: LoadedModel, notice: str | None) -> tuple[LoadedModel, str | None]:
    """With those that were asked for laid over its layers, and what the screen must say about it then."""
    if not config.window:
        return model, notice
    try:
        model = with_windows(model, parse_windows(config.window, model.config.layers))
    except ValueError as error:
        raise BuildError(str(error), "give --window a number of tokens, or such as 64,full", code=2) from None
    laid_over = f"{describe_windows(model.config.windows)}, whatever the model was trained with"
    return model, laid_over if notice is None else f"{laid_over}; {notice}"[:500]


def _forward(step: Progress, progress: Callable[[str, int, int | None], None]) -> None:
    progress(step.what, step.done, step.total)


def device_of(wanted: str) -> str:
    """The device that is meant; auto: a GPU where there is one. Raises `BuildError` for one that torch has not."""
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted == "cuda" and not torch.cuda.is_available():
        raise BuildError("no CUDA device is available to torch", "use --device cpu")
    if wanted == "mps" and not torch.backends.mps.is_available():
        raise BuildError("no MPS device is available to torch", "use --device cpu")
    return wanted


def device_name(device: str) -> str:
    """What viewers are told that it is."""
    if device == "cuda":
        return str(torch.cuda.get_device_name())
    threads = torch.get_num_threads()
    return f"{device}, {threads} {'thread' if threads == 1 else 'threads'}" if device == "cpu" else device


def facts_told(model: LoadedModel) -> ModelFacts:
    """What viewers are told of it."""
    config = model.config
    return ModelFacts(
        name=config.name[:256],
        revision=config.revision,
        random_weights=config.random_weights,
        weight_dtype=model.weight_dtype
        if config.stored_as is None
        else f"{model.weight_dtype} (from {config.stored_as})",
        layers=config.layers,
        hidden=config.hidden,
        query_heads=config.query_heads,
        kv_heads=config.kv_heads,
        head_size=config.head_size,
        vocabulary=config.vocab,
        context_tokens=config.context,
    )
