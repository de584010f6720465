"""Opening a catalog's database by its URL."""

import re
from importlib import import_module
from typing import TypeAlias

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from deltamirror.config import FILE_SCHEMES, CatalogSettings, redact_url, unclear_url
from deltamirror.errors import InvalidSettings, MissingExtra
from deltamirror.txnlog.database.access import Database

_FILE = re.compile(r"[\w./-]+\.(?P<kind>db|sqlite3?|duckdb)")
"""What looks like the name of a database file, and holds no password."""
_PATH = re.compile(r"[\w./-]+")

_FORMS = "use sqlite:///FILE, duckdb:///FILE or postgresql://USER@HOST/DATABASE"

_Place: TypeAlias = tuple[str, str, str]
"""Module, class, and the extra that installs what the module needs."""

_ENGINES: dict[str, _Place] = {
    "sqlite": ("deltamirror.txnlog.database.engines.sqlite", "SqliteDatabase", ""),
    "duckdb": ("deltamirror.txnlog.database.engines.duckdb", "DuckdbDatabase", "duckdb"),
    "postgresql": ("deltamirror.txnlog.database.engines.postgresql", "PostgresqlDatabase", "postgres"),
    "postgres": ("deltamirror.txnlog.database.engines.postgresql", "PostgresqlDatabase", "postgres"),
}


_DRIVERS = (*_ENGINES, "sqlite+pysqlite", "postgresql+psycopg")
"""Whatever else SQLAlchemy knows by ``engine+driver`` is not what the engines here are made for."""


def open_database(settings: CatalogSettings) -> Database:
    """The database behind a catalog URL. Connects only when it is used."""
    url = _parsed(settings.url)
    module, cls, extra = _ENGINES[url.get_backend_name()]
    try:
        engine = getattr(import_module(module), cls)
    except ImportError as error:
        raise MissingExtra(
            f"the catalog {redact_url(settings.url)} needs a library that is not installed: {error.name}",
            hint=f"pip install 'deltamirror[{extra}]'",
            extra=extra,
        ) from error
    opened: Database = engine(url, settings)
    return opened


def _parsed(text: str) -> URL:
    if (unclear := unclear_url(text)) and not text.startswith(FILE_SCHEMES):
        raise InvalidSettings(unclear, hint=_FORMS, key="catalog.url")
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # the port, when it is no number, is a ValueError
        raise _wrong(text) from None
    if url.drivername not in _DRIVERS:
        raise _wrong(text)
    if url.get_backend_name() in FILE_SCHEMES and url.host is not None:
        raise _slash_short(url, text)
    if url.get_backend_name() in FILE_SCHEMES and not url.database:
        raise _without_file(url, text)
    if url.database is not None and url.database != url.database.strip():
        raise _blank(text)
    return url


def _blank(text: str) -> InvalidSettings:
    """A file's name may end with a blank, which is easy to miss: the catalog would be another, empty one."""
    return InvalidSettings(
        f"the catalog URL {redact_url(text)!r} has a blank before or after the name of the database",
        hint="remove the blank, or the end of the line, from the URL",
        key="catalog.url",
    )


def _without_file(url: URL, text: str) -> InvalidSettings:
    """As where a variable for the file is empty: all commits would be gone with the process."""
    engine = url.get_backend_name()
    return InvalidSettings(
        f"the catalog URL {redact_url(text)!r} names no file: it would be in memory, and gone with the process",
        hint=f"name a file: {engine}:///lake.db; {engine}:///:memory: is a catalog in memory, for tests in Python",
        key="catalog.url",
    )


def _slash_short(url: URL, text: str) -> InvalidSettings:
    """A file behind two slashes is read as a host, and the database would be one in memory."""
    engine, file = url.get_backend_name(), "/".join(filter(None, (url.host, url.database)))
    named = file if _PATH.fullmatch(file) and "@" not in text else "FILE"
    return InvalidSettings(
        f"the catalog URL {redact_url(text)!r} has two slashes before the file instead of three",
        hint=f"use {engine}:///{named} for a file below the working folder, {engine}:////{named} for an absolute path",
        key="catalog.url",
    )


def _wrong(text: str) -> InvalidSettings:
    named = _FILE.fullmatch(text)
    return InvalidSettings(
        f"{redact_url(text)!r} is not a catalog URL",
        hint=f"for a file: {'duckdb' if named['kind'] == 'duckdb' else 'sqlite'}:///{text}" if named else _FORMS,
        key="catalog.url",
    )
