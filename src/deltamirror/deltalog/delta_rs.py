"""delta-rs, the independent reader of logs: imported here alone, and only once it is asked for."""

import re
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import pyarrow as pa

from deltamirror.config import StorageSettings
from deltamirror.errors import MissingExtra
from deltamirror.storage.clients import Credentials, S3Access
from deltamirror.storage.location import local_path

DELTA_RS: Final = "delta-rs"
_LIBRARY: Final = "deltalake"
_EXTRA: Final = "delta-rs"
_UNSUPPORTED: Final = re.compile(r"unsupported|not supported|not yet supported", re.IGNORECASE)
"""In the messages of delta-rs about tables that it does not read."""


def is_installed() -> bool:
    """Whether this process can import it."""
    return find_spec(_LIBRARY) is not None


def require_delta_rs() -> None:
    """MissingExtra where it is not installed."""
    if not is_installed():
        raise MissingExtra(
            "mirror.verify is paranoid, and delta-rs, which reads the published versions, is not installed",
            hint=f"pip install 'deltamirror[{_EXTRA}]' on every machine that mirrors, or set mirror.verify to strict",
            extra=_EXTRA,
        )


def open_table(location: str, version: int, options: StorageSettings, credentials: Credentials) -> Any:
    """A version of the table at a location, as a ``DeltaTable``; whatever delta-rs raises."""
    place, named = local_path(location) or location, storage_options(location, options, credentials)
    return import_module(_LIBRARY).DeltaTable(place, version=version, storage_options=named)


def add_actions(table: Any) -> pa.Table:
    """The live files: among their columns are ``path`` and ``size_bytes``."""
    return pa.table(table.get_add_actions())


def count_rows(table: Any) -> int:
    """How many rows there are, by reading all of them."""
    batches = import_module(_LIBRARY).QueryBuilder().register("t", table).execute("SELECT * FROM t")
    return sum(batch.num_rows for batch in batches)


def knows_too_little(message: str) -> bool:
    """Whether an error of delta-rs says that it does not support a feature of the table."""
    return _UNSUPPORTED.search(message) is not None


def storage_options(location: str, options: StorageSettings, credentials: Credentials) -> dict[str, str]:
    """The settings of the store at a location by the names that the Rust libraries have for them."""
    secrets = {
        "AWS_SECRET_ACCESS_KEY": credentials.secret_access_key,
        "AWS_SESSION_TOKEN": credentials.session_token,
        "AZURE_STORAGE_ACCOUNT_KEY": credentials.azure_key,
    }
    named = {
        "AWS_ACCESS_KEY_ID": credentials.access_key_id,
        "AZURE_STORAGE_ACCOUNT_NAME": options.azure_account,
        "GOOGLE_APPLICATION_CREDENTIALS": options.google_credentials,
        "ALLOW_HTTP": "true" if options.allow_http else None,
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": None if options.path_style else "true",
        **{name: secret.reveal() for name, secret in secrets.items() if secret is not None},
        **(_of_s3(S3Access.of(options, credentials)) if location.startswith("s3://") else {}),
    }
    return {name: value for name, value in named.items() if value is not None}


def _of_s3(access: S3Access) -> dict[str, str | None]:
    """Region and address, and the keys of a profile, which delta-rs would look for by the environment alone."""
    named = {"AWS_REGION": access.region, "AWS_ENDPOINT_URL": access.endpoint}
    if access.profile is None:
        return named
    keys = access.profile()
    return named | {
        "AWS_ACCESS_KEY_ID": keys["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": keys["secret_access_key"],
        "AWS_SESSION_TOKEN": keys.get("token"),
    }
