from tests.e2e.conftest import engines, environment, place  # noqa: F401
