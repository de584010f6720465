"""obstore's clients for a bucket, with times and retries of our choice."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self
from urllib.parse import urlsplit

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from deltamirror.config import Secret, StorageSettings, redact_url
from deltamirror.errors import InvalidSettings
from deltamirror.storage.failures import from_client
from deltamirror.storage.object_store import Clients
from deltamirror.storage.profile import Profile, find_profile
from deltamirror.storage.throttling import asked_pause_of

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

_KEY_VARIABLES: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The keys that settings give; they do not pickle."""

    access_key_id: str | None = None
    secret_access_key: Secret | None = None
    session_token: Secret | None = None
    azure_key: Secret | None = None

    @classmethod
    def of(cls, settings: StorageSettings) -> Self:
        """The keys in the settings, if there are any."""
        return cls(settings.access_key_id, settings.secret_access_key, settings.session_token, settings.azure_key)

    def secrets(self) -> frozenset[str]:
        """The texts that no message may hold, those of the environment included."""
        own = [self.secret_access_key, self.session_token, self.azure_key]
        found = [_reveal(each) for each in own] + [os.environ.get(name) for name in _KEY_VARIABLES[1:]]
        return frozenset(text for text in found if text)


@dataclass(frozen=True, slots=True)
class S3Access:
    """How a bucket of S3 is reached: by the keys of the settings, or by those of a profile; else by the environment."""

    profile: Profile | None
    region: str | None
    endpoint: str | None

    @classmethod
    def of(cls, options: StorageSettings, credentials: Credentials) -> Self:
        """Settings go before the environment, and that before the profile."""
        profile = None if credentials.access_key_id else find_profile(options.profile)
        known = profile.values() if profile else {}
        return cls(
            profile=profile,
            region=options.region or _unless_in_environment(known, "region", "AWS_REGION", "AWS_DEFAULT_REGION"),
            endpoint=options.endpoint or _unless_in_environment(known, "endpoint_url", "AWS_ENDPOINT_URL"),
        )


def clients_for(scheme: str, bucket: str, options: StorageSettings, credentials: Credentials) -> Clients:
    """The clients of a bucket, made once in a process. They do not survive a fork."""
    if scheme == "memory":
        return _memory(bucket)
    return _remote(scheme, bucket, options, credentials)


@lru_cache(maxsize=256)
def _memory(bucket: str) -> Clients:
    # `memory://` is the memory of this process: all stores of one bucket see the same objects.
    memory = MemoryStore()
    return Clients(memory, memory)


@lru_cache(maxsize=256)
def _remote(scheme: str, bucket: str, options: StorageSettings, credentials: Credentials) -> Clients:
    # Clients hold the connections, which all tables in a bucket share.
    make = {"s3": _s3, "gs": _google, "az": _azure, "abfs": _azure}[scheme]
    config = make(bucket, options, credentials)
    store: Any = {"s3": S3Store, "gs": GCSStore}.get(scheme, AzureStore)
    try:
        calls, transfers = (
            store(**config, client_options=_client(options, timeout), retry_config=_retry(options, timeout))
            for timeout in (options.timeout, options.transfer_timeout)
        )
    except (BaseError, ValueError) as error:
        raise from_client(error, f"cannot use {scheme}://{bucket}") from None
    tag: Literal["e_tag", "version"] = "version" if scheme == "gs" else "e_tag"
    asked_pause = asked_pause_of(calls, ca_file=options.ca_file)
    secrets = credentials.secrets()
    return Clients(calls, transfers, tag=tag, quoted=store is AzureStore, asked_pause=asked_pause, secrets=secrets)


def _client(options: StorageSettings, timeout: float) -> "ClientConfig":
    client: ClientConfig = {
        "timeout": timedelta(seconds=timeout),
        "connect_timeout": timedelta(seconds=options.connect_timeout),
        "user_agent": "deltamirror",
    }
    if options.allow_http:
        client["allow_http"] = True
    if options.ca_file is not None:
        client["root_certificate"] = _read("ca_file", options.ca_file)
    return client


def _retry(options: StorageSettings, timeout: float) -> "RetryConfig":
    return {
        "max_retries": options.retries,
        "retry_timeout": timedelta(seconds=timeout),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
    }


def _s3(bucket: str, options: StorageSettings, credentials: Credentials) -> dict[str, Any]:
    _check_keys(credentials)
    access = S3Access.of(options, credentials)
    config = {
        "access_key_id": credentials.access_key_id,
        "secret_access_key": _reveal(credentials.secret_access_key),
        "session_token": _reveal(credentials.session_token),
        "region": access.region,
        "endpoint": _endpoint(access.endpoint, None if options.path_style else bucket),
        "virtual_hosted_style_request": not options.path_style,
    }
    return {"bucket": bucket, "config": _given(config), "credential_provider": access.profile}


def _google(bucket: str, options: StorageSettings, _: Credentials) -> dict[str, Any]:
    config = {"service_account": options.google_credentials, "base_url": _endpoint(options.endpoint)}
    return {"bucket": bucket, "config": _given(config)}


def _azure(container: str, options: StorageSettings, credentials: Credentials) -> dict[str, Any]:
    _check_keys(credentials)
    # abfs://container@account.dfs.core.windows.net
    container, _, host = container.partition("@")
    config = {
        "account_name": host.partition(".")[0] or options.azure_account,
        "account_key": _reveal(credentials.azure_key),
        "endpoint": _endpoint(options.endpoint),
    }
    return {"container_name": container, "config": _given(config)}


def _given(config: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in config.items() if value is not None}


def _unless_in_environment(known: Mapping[str, str], key: str, *variables: str) -> str | None:
    return None if any(os.environ.get(variable) for variable in variables) else known.get(key)


def _endpoint(endpoint: str | None, bucket: str | None = None) -> str | None:
    if endpoint is None:
        return None
    if not _is_address(endpoint):
        raise InvalidSettings(
            f"the endpoint {redact_url(endpoint)!r} is not an address",
            hint="give it as https://HOST or https://HOST:PORT",
            key="storage.endpoint",
        )
    address = endpoint.rstrip("/")
    return address.replace("://", f"://{bucket}.", 1) if bucket else address


def _is_address(endpoint: str) -> bool:
    try:
        parts = urlsplit(endpoint)
    except ValueError:  # a bracket that is not closed
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not any(map(str.isspace, endpoint))


def _check_keys(credentials: Credentials) -> None:
    """Keys become parts of HTTP headers: in a line break, which a file may end with, the client would panic."""
    keys = {f"storage.{each.name}": getattr(credentials, each.name) for each in fields(credentials)}
    keys |= {name: os.environ.get(name) for name in _KEY_VARIABLES}
    for name, value in keys.items():
        text = _reveal(value) if isinstance(value, Secret) else value
        if text is not None and not text.isprintable():
            raise InvalidSettings(f"{name} has a line break or another control character in it", key=name)


def _reveal(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()


def _read(name: str, file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InvalidSettings(
            f"{file}: cannot read it: {error.strerror}", key=f"storage.{name}", source=file
        ) from error
