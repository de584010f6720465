"""What lies at a location already."""

from pathlib import Path

from deltamirror.config import StorageSettings
from deltamirror.storage.failures import from_os
from deltamirror.storage.location import local_path
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store


def has_delta_log(location: str, settings: StorageSettings | None = None) -> bool:
    """Whether there is anything in ``_delta_log/`` below a location."""
    return next(store_at(location, settings or StorageSettings()).list("_delta_log"), None) is not None


def has_place(store: Store) -> bool:
    """Whether a store's location is there: on a disk its folder, which may be empty; elsewhere, any object below it."""
    folder = local_path(store.location)
    if folder is None:
        return next(store.list(), None) is not None
    try:
        return Path(folder).is_dir()
    except OSError as error:
        raise from_os(error, f"cannot look at {folder}") from error
