"""Whether a Delta log lies at a location already."""

from deltamirror.config import StorageSettings
from deltamirror.storage.open import store_at

__all__ = ["has_delta_log"]


def has_delta_log(location: str, settings: StorageSettings | None = None) -> bool:
    """Whether there is anything in ``_delta_log/`` below a location."""
    return next(store_at(location, settings or StorageSettings()).list("_delta_log"), None) is not None
