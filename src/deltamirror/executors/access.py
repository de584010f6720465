"""How an executor reaches stores: by its own credentials, since none travel with a job."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeVar

from deltamirror.errors import DeltaMirrorError, PermissionDenied
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.open import Stores, open_store
from deltamirror.storage.store import Store

_HINT: Final = (
    "this is a Spark executor, which has the rights and the environment of its own process: DELTAMIRROR_CONFIG, "
    "DELTAMIRROR_STORAGE__ACCESS_KEY_ID and DELTAMIRROR_STORAGE__SECRET_ACCESS_KEY, AWS_…, DELTAMIRROR_CATALOG__URL"
)

E = TypeVar("E", bound=DeltaMirrorError)


@lru_cache(maxsize=64)
def executor_store(address: StoreAddress) -> Store:
    """Opened once a process, with its own credentials; Spark uses a worker process for many tasks."""
    return Stores(open_store).at(address)


def explained(error: E) -> E:
    """The error; of an executor that has no access, with where it would find it."""
    if not isinstance(error, PermissionDenied):
        return error
    return replace(error, hint="; ".join(filter(None, [error.hint, _HINT])))


@contextmanager
def explaining() -> Iterator[None]:
    """The same for what is raised inside."""
    try:
        yield
    except PermissionDenied as error:
        raise explained(error) from error
