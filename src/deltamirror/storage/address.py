"""Where a store is, as a value that travels to other processes."""

from dataclasses import dataclass
from typing import Self

from deltamirror.config import StorageSettings
from deltamirror.errors import InvalidSettings
from deltamirror.storage.location import canonical_location


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Where a store is and how to go there, fit to travel: without credentials."""

    location: str
    options: StorageSettings

    @classmethod
    def of(cls, location: str, settings: StorageSettings, *, or_bucket: bool = False) -> Self:
        """The address of a location, in its canonical form; ``or_bucket`` admits a whole bucket."""
        return cls(canonical_location(location, or_bucket=or_bucket), _without_credentials(settings))


def _without_credentials(settings: StorageSettings) -> StorageSettings:
    if settings.has_secret_endpoint:
        raise InvalidSettings(
            "the endpoint has a user or parameters in it",
            hint="keys have settings of their own: `storage.access_key_id`, `storage.secret_access_key`",
            key="storage.endpoint",
        )
    return settings.without_credentials()
