"""How a reader's process reaches an S3 server: handed over with each request, since servers come and go.

A reader's process lives as long as the tests; it is sent to a server directly, or to a proxy that listens before it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from deltamirror.config import Secret, StorageSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Access:
    """A server's address, and whom to be there."""

    endpoint: str
    access_key: str
    secret_key: str
    region: str

    @classmethod
    def of(cls, settings: StorageSettings) -> Self:
        """The access that the product's own settings describe."""
        assert settings.endpoint
        assert settings.access_key_id
        assert settings.secret_access_key
        assert settings.region
        return cls(
            endpoint=settings.endpoint,
            access_key=settings.access_key_id,
            secret_key=settings.secret_access_key.reveal(),
            region=settings.region,
        )

    @classmethod
    def asked(cls, request: Mapping[str, Any]) -> Self | None:
        """The access that a request carries; None where its location is a folder."""
        return cls(**request["s3"]) if request["s3"] else None

    def settings(self) -> StorageSettings:
        """The product's own settings for it."""
        return StorageSettings(
            access_key_id=self.access_key,
            secret_access_key=Secret(self.secret_key),
            region=self.region,
            endpoint=self.endpoint,
            allow_http=True,
        )

    def environment(self) -> dict[str, str]:
        """As the tools of AWS, and the libraries in Rust, name these things."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": self.region,
            "AWS_ALLOW_HTTP": "true",
        }

    def hadoop(self, bucket: str) -> dict[str, str]:
        """The settings of Hadoop for one bucket."""
        settings = {
            "endpoint": self.endpoint,
            "endpoint.region": self.region,
            "access.key": self.access_key,
            "secret.key": self.secret_key,
        }
        return {f"fs.s3a.bucket.{bucket}.{name}": value for name, value in settings.items()}


def bucket_and_key(location: str) -> tuple[str, str]:
    """The two parts of ``s3://bucket/key``."""
    bucket, _, key = location.removeprefix("s3://").partition("/")
    return bucket, key
