"""A user at a prompt: an empty working folder, a clean environment, and the command."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.interfaces.prompt import AddLine, Prompt

ADD = {
    "path": "a.parquet",
    "partitionValues": {"day": "2024-01-01"},
    "size": 10,
    "modificationTime": 1,
    "dataChange": True,
}


@pytest.fixture
def prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prompt:
    """A prompt in an empty folder, without settings."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("DELTAMIRROR_")]:
        monkeypatch.delenv(name)
    return Prompt(tmp_path)


@pytest.fixture
def orders(prompt: Prompt, made_catalogs: Path) -> Prompt:
    """A prompt in a folder with a catalog that has the table ``orders``, partitioned by day."""
    shutil.copy(made_catalogs / "lake.db", prompt.folder / "deltamirror.db")
    prompt(
        "table",
        "create",
        "orders",
        "--location",
        "lake/orders",
        "--schema",
        "id long, day date",
        "--partition-by",
        "day",
    )
    return prompt


@pytest.fixture
def add() -> AddLine:
    """A line with an add; keyword arguments change its fields."""

    def line(**fields: object) -> str:
        return json.dumps({"add": {**ADD, **fields}}) + "\n"

    return line
