import pytest

from engine.model.fetch import cached_model
from engine.model.load import LoadedModel, load_model


@pytest.fixture(scope="session")
def smollm() -> LoadedModel:
    """The demo's model, loaded once a worker: that takes seconds. Nobody writes to it."""
    path = cached_model()
    if path is None:
        pytest.fail("the SmolLM2 weights are missing; run: make model")
    return load_model(path)
