"""The settings of stores: whom to be, where to go, how long to wait."""

from collections.abc import Iterator
from typing import Annotated, Final, Self

import msgspec

from deltamirror.config.keys import NOT_NEGATIVE, POSITIVE, Reload, described
from deltamirror.config.secrets import Secret

_CREDENTIALS: Final = ("access_key_id", "secret_access_key", "session_token", "azure_key")


class StorageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the stores of the tables are reached. Other values are taken from the environment of the process that
    writes, as the tools of the clouds do (`AWS_ACCESS_KEY_ID`, `AWS_PROFILE`, `AWS_REGION`, `AWS_ENDPOINT_URL`,
    `AZURE_STORAGE_ACCOUNT_NAME`, `GOOGLE_APPLICATION_CREDENTIALS`, …), then from the machine's own identity. Keys never
    travel to Spark executors: each process finds its own.
    """

    access_key_id: Annotated[
        str | None,
        described("S3: the access key. Goes together with `secret_access_key`.", reload=Reload.LIVE),
    ] = None
    secret_access_key: Annotated[
        Secret | None,
        described("S3: the secret of the access key. Never shown.", reload=Reload.LIVE),
    ] = None
    session_token: Annotated[
        Secret | None,
        described("S3: the session token of temporary credentials. Never shown.", reload=Reload.LIVE),
    ] = None
    profile: Annotated[
        str | None,
        described(
            "S3: the profile in `~/.aws/credentials` and `~/.aws/config` whose keys are used; "
            "they are read again every five minutes.",
            reload=Reload.LIVE,
        ),
    ] = None
    region: Annotated[str | None, described("S3: the region of the bucket.", reload=Reload.LIVE)] = None
    endpoint: Annotated[
        str | None,
        described(
            "The address of an S3-compatible server (or of a server that speaks Azure's or Google's protocol), "
            "such as `https://minio.example:9000`; Azure's with the account in the path, where the host does not "
            "name it. Without a value it is the cloud's own.",
            reload=Reload.LIVE,
        ),
    ] = None
    path_style: Annotated[
        bool,
        described(
            "S3: address objects as `endpoint/bucket/key`; otherwise as `bucket.endpoint/key`.", reload=Reload.LIVE
        ),
    ] = True
    allow_http: Annotated[
        bool,
        described("Allow an `endpoint` without TLS: others on the network can read the data.", reload=Reload.LIVE),
    ] = False
    ca_file: Annotated[
        str | None,
        described(
            "A PEM file with certificates that are trusted besides the system's, for a server with a private CA.",
            reload=Reload.LIVE,
        ),
    ] = None
    connect_timeout: Annotated[
        float,
        POSITIVE,
        described("How long a store may take to accept a connection.", unit="s", reload=Reload.LIVE),
    ] = 5.0
    timeout: Annotated[
        float,
        POSITIVE,
        described(
            "How long one call to a store may take. A call that hangs on a local disk is given up, too, and "
            "its thread left behind.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = 30.0
    transfer_timeout: Annotated[
        float,
        POSITIVE,
        described("How long a call may take that moves more than 8 MiB.", unit="s", reload=Reload.LIVE),
    ] = 300.0
    retries: Annotated[
        int,
        NOT_NEGATIVE,
        described(
            "How often a call is tried again at once when the store answers 5xx or 429, or the connection fails. "
            "Longer waits are the mirror's.",
            unit="attempts",
            reload=Reload.LIVE,
        ),
    ] = 2
    azure_account: Annotated[str | None, described("Azure: the storage account.", reload=Reload.LIVE)] = None
    azure_key: Annotated[
        Secret | None, described("Azure: the key of the storage account. Never shown.", reload=Reload.LIVE)
    ] = None
    google_credentials: Annotated[
        str | None, described("Google: the file with the key of a service account.", reload=Reload.LIVE)
    ] = None

    def without_credentials(self) -> Self:
        """These settings, fit to travel to another process."""
        return msgspec.structs.replace(self, **dict.fromkeys(_CREDENTIALS))

    @property
    def has_secret_endpoint(self) -> bool:
        """Whether the endpoint names a user or has parameters: addresses travel to other processes, and are shown."""
        return not {"@", "?", "#"}.isdisjoint(self.endpoint or "")

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Keys whose values do not go together, each with what is wrong."""
        if (self.access_key_id is None) != (self.secret_access_key is None):
            key = "access_key_id" if self.secret_access_key is None else "secret_access_key"
            yield key, "`storage.access_key_id` and `storage.secret_access_key` go together: one of them is missing"
        if self.has_secret_endpoint:
            yield (
                "endpoint",
                "`storage.endpoint` has a user or parameters in it: keys have settings of their own",
            )
        if self.endpoint is not None and self.endpoint.startswith("http://") and not self.allow_http:
            yield "endpoint", "`storage.endpoint` is without TLS, which `storage.allow_http` does not allow"
