"""How a reader's process reaches an Azure server: handed over with each request, since servers come and go."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from deltamirror.config import StorageSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureAccess:
    """A server's address, and the account there."""

    endpoint: str
    account: str
    key: str

    @classmethod
    def of(cls, settings: StorageSettings) -> Self | None:
        """The access that the product's own settings describe; None where they are those of another store."""
        if settings.azure_account is None:
            return None
        assert settings.endpoint
        assert settings.azure_key
        return cls(endpoint=settings.endpoint, account=settings.azure_account, key=settings.azure_key.reveal())

    @classmethod
    def asked(cls, request: Mapping[str, Any]) -> Self | None:
        """The access that a request carries; None where its location is elsewhere."""
        return cls(**request["azure"]) if request["azure"] else None

    def environment(self) -> dict[str, str]:
        """As the libraries in Rust name these things."""
        return {
            "AZURE_STORAGE_ENDPOINT": self.endpoint,
            "AZURE_STORAGE_ACCOUNT_NAME": self.account,
            "AZURE_STORAGE_ACCOUNT_KEY": self.key,
            "AZURE_ALLOW_HTTP": "true",
        }
