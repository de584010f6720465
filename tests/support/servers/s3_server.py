"""What the S3 servers of the tests have in common, whoever made them."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Final

from deltamirror.config import Secret, StorageSettings
from tests.support.servers.server_guard import GuardedServer

ACCESS_KEY: Final = "deltamirror"
SECRET_KEY: Final = "deltamirror-tests"
REGION: Final = "us-east-1"


@dataclass(kw_only=True)
class S3Server(GuardedServer):
    """A server that speaks S3."""

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """The address of the S3 service."""

    @abstractmethod
    def create_bucket(self) -> str:
        """Create an empty bucket, and return its name."""

    @abstractmethod
    def delete_bucket(self, name: str) -> None:
        """Delete a bucket with all that is in it."""

    @abstractmethod
    def version(self) -> str:
        """The version of the server."""

    def settings(self, secret: str = SECRET_KEY) -> StorageSettings:
        """The settings that reach the server."""
        return StorageSettings(
            access_key_id=ACCESS_KEY,
            secret_access_key=Secret(secret),
            region=REGION,
            endpoint=self.endpoint,
            allow_http=True,
        )
