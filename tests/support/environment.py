"""What a test does to the environment of the process ends with the test."""

import os
from collections.abc import Iterator

import pytest

_OF_PYTEST = "PYTEST_CURRENT_TEST"


@pytest.fixture(autouse=True)
def environment_as_before() -> Iterator[None]:
    """Take back what commands export for the executors of Spark: as a process of its own, a command takes it along."""
    before = dict(os.environ)
    yield
    for name in {*before, *os.environ} - {_OF_PYTEST}:
        if name not in before:
            del os.environ[name]
        elif os.environ.get(name) != before[name]:
            os.environ[name] = before[name]
