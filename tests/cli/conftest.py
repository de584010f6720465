"""A user at a prompt: an empty working folder, a clean environment, and the command."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deltamirror import Catalog
from tests.support.interfaces.prompt import AddLine, Prompt
from tests.support.lakes.moved import moved

ADD = {
    "path": "a.parquet",
    "partitionValues": {"day": "2024-01-01"},
    "size": 10,
    "modificationTime": 1,
    "dataChange": True,
}


@contextmanager
def prompt_in(folder: Path) -> Iterator[Prompt]:
    """A prompt in a folder, without settings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in [name for name in os.environ if name.startswith("DELTAMIRROR_")]:
            patch.delenv(name)
        yield Prompt(folder)


@pytest.fixture
def prompt(tmp_path: Path) -> Iterator[Prompt]:
    """A prompt in an empty folder, without settings."""
    with prompt_in(tmp_path) as found:
        yield found


def add_line(**fields: object) -> str:
    """A line with an add, some of whose fields are these."""
    return json.dumps({"add": {**ADD, **fields}}) + "\n"


def create_orders(folder: Path, made_catalogs: Path) -> None:
    """Put a catalog into a folder that has the table ``orders``, partitioned by day."""
    shutil.copy(made_catalogs / "lake.db", folder / "deltamirror.db")
    with Catalog(f"sqlite:///{folder / 'deltamirror.db'}") as catalog:
        location = str(folder / "lake" / "orders")
        catalog.create_table("orders", location=location, schema="id long, day date", partition_by=["day"])


@pytest.fixture(scope="session")
def published_orders(made_catalogs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the table at version 3, published, with a file more in each version."""
    folder = tmp_path_factory.mktemp("published")
    create_orders(folder, made_catalogs)
    with prompt_in(folder) as prompt:
        for name in "abc":
            prompt("commit", "orders", "-", stdin=add_line(path=f"{name}.parquet", stats='{"numRecords":1}'))
        prompt("mirror", "--once", "--runner", "local")
    return folder


@pytest.fixture
def orders(prompt: Prompt, made_catalogs: Path) -> Prompt:
    """A prompt in a folder with a catalog that has the table ``orders``, which was created just now."""
    create_orders(prompt.folder, made_catalogs)
    return prompt


@pytest.fixture
def published(prompt: Prompt, published_orders: Path) -> Prompt:
    """A prompt with the table ``orders`` at version 3, published a while ago, with a file more in each version."""
    moved(published_orders, prompt.folder)
    return prompt


@pytest.fixture
def add() -> AddLine:
    """A line with an add; keyword arguments change its fields."""
    return add_line
