"""The options of a read or a write, under the names that users of Delta Lake know."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Self

import msgspec

from deltamirror.arguments import table_name
from deltamirror.catalog.catalog import Catalog
from deltamirror.catalog.rows import partitioning_of
from deltamirror.config import redact_text
from deltamirror.errors import DeltaMirrorError, InvalidInput
from deltamirror.txnlog.tables.reading import Snapshot

_ALWAYS: Final = ("path", "catalog")
_OF_READS: Final = ("versionAsOf", "timestampAsOf")
_OF_STREAMS: Final = (
    "startingVersion",
    "startingTimestamp",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "skipChangeCommits",
    "ignoreDeletes",
)
_OF_SINKS: Final = ("txnAppId", "checkpointLocation", "queryName")
_OF_APPENDS: Final = ("mergeSchema", "txnAppId", "txnVersion")
_OF_OVERWRITES: Final = ("replaceWhere", "partitionOverwriteMode", "overwriteSchema", "partitionBy", *_OF_APPENDS)
_MODES: Final = ("static", "dynamic")


@contextmanager
def with_hint() -> Iterator[None]:
    """Put the hint of an error of ours into its message: of what happens here, Spark shows the message alone."""
    try:
        yield
    except DeltaMirrorError as error:
        if not error.hint or error.hint in error.message:
            raise
        raise replace(error, message=f"{error.message} ({error.hint})") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What was asked for. ``catalog`` is a URL; None: that of the settings, as the command line finds them."""

    table: str
    catalog: str | None = None
    version: int | None = None
    as_of: str | None = None
    replace_where: str | None = None
    is_dynamic: bool = False
    merges_schema: bool = False
    partition_by: tuple[str, ...] | None = None
    """The partition columns of a table whose schema is overwritten; None: it keeps its schema."""
    app_id: str | None = None
    app_version: int | None = None
    starts_latest: bool = False
    max_files: int | None = None
    max_bytes: int | None = None
    skips_changes: bool = False
    ignores_deletes: bool = False

    @classmethod
    def of_read(cls, given: Mapping[str, str]) -> Self:
        """Those of a read; InvalidInput for one that it does not have."""
        named = _named(given, _OF_READS, "read")
        if named.keys() >= set(_OF_READS):
            raise InvalidInput("versionAsOf and timestampAsOf exclude each other", hint="give one of them")
        return cls(
            table=_table(named),
            catalog=_catalog(named),
            version=_number(named, "versionAsOf"),
            as_of=named.get("timestampAsOf"),
        )

    @classmethod
    def of_table(cls, given: Mapping[str, str]) -> Self:
        """What a table is looked up by before it is known whether it is read at once, or as a stream."""
        if {name.lower() for name in given} & {name.lower() for name in _OF_STREAMS}:
            return replace(cls.of_stream(given), version=None, as_of=None)
        return cls.of_read(given)

    @classmethod
    def of_stream(cls, given: Mapping[str, str]) -> Self:
        """Those of a stream that is read; InvalidInput for one that it does not have."""
        named = _named(given, _OF_STREAMS, "read a stream")
        for one, other in (("startingVersion", "startingTimestamp"), ("maxFilesPerTrigger", "maxBytesPerTrigger")):
            if one in named and other in named:
                raise InvalidInput(f"{one} and {other} exclude each other", hint="give one of them")
        starts_latest = named.get("startingVersion", "").strip().lower() == "latest"
        return cls(
            table=_table(named),
            catalog=_catalog(named),
            version=None if starts_latest else _number(named, "startingVersion"),
            as_of=named.get("startingTimestamp"),
            starts_latest=starts_latest,
            max_files=_limit(named, "maxFilesPerTrigger"),
            max_bytes=_limit(named, "maxBytesPerTrigger"),
            skips_changes=_flag(named, "skipChangeCommits"),
            ignores_deletes=_flag(named, "ignoreDeletes"),
        )

    @classmethod
    def of_sink(cls, given: Mapping[str, str]) -> Self:
        """Those of a stream that is written; InvalidInput for one that it does not have, or without a name for it."""
        named = _named(given, _OF_SINKS, "write a stream")
        if not named.get("txnAppId", "").strip():
            raise InvalidInput(
                "the stream has no txnAppId, by which a batch that is written again would be known",
                hint='name the query: .option("txnAppId", "daily-1"), and otherwise with another checkpointLocation',
            )
        return cls(table=_table(named), catalog=_catalog(named), app_id=named["txnAppId"])

    @classmethod
    def of_write(cls, given: Mapping[str, str], *, overwrite: bool) -> Self:
        """Those of a write; InvalidInput for one that it does not have."""
        known, doing = (_OF_OVERWRITES, "overwrite") if overwrite else (_OF_APPENDS, "append")
        named = _named(given, known, doing)
        mode = named.get("partitionOverwriteMode", "static").lower()
        if mode not in _MODES:
            raise InvalidInput(f"the option partitionOverwriteMode is {mode!r}", hint=f"one of: {', '.join(_MODES)}")
        if ("txnAppId" in named) != ("txnVersion" in named):
            raise InvalidInput("txnAppId and txnVersion belong together", hint="give both, or none")
        return cls(
            table=_table(named),
            catalog=_catalog(named),
            replace_where=named.get("replaceWhere"),
            is_dynamic=mode == "dynamic",
            merges_schema=_flag(named, "mergeSchema"),
            partition_by=partitioning_of(_flag(named, "overwriteSchema"), _names(named, "partitionBy")),
            app_id=named.get("txnAppId"),
            app_version=_number(named, "txnVersion"),
        )

    def open(self) -> Catalog:
        """The catalog, opened by this process."""
        return Catalog(self.catalog)

    def snapshot(self, catalog: Catalog) -> Snapshot:
        """The table as it is to be read."""
        return catalog.table(self.table).snapshot(self.version, self.as_of)


def _named(given: Mapping[str, str], more: tuple[str, ...], doing: str) -> dict[str, str]:
    """The options by their usual names: Spark knows them without regard to case."""
    known = {name.lower(): name for name in (*_ALWAYS, *more)}
    for name in given:
        if name.lower() not in known:
            hint = f"there are: {', '.join(known.values())}"
            raise InvalidInput(f"format deltamirror has no option {name!r} to {doing}", hint=hint)
    return {known[name.lower()]: value for name, value in given.items()}


def _table(named: Mapping[str, str]) -> str:
    if "path" not in named:
        raise InvalidInput("no table is named", hint='name it: .load("sales.orders"), .save("sales.orders")')
    return table_name(named["path"])


def _catalog(named: Mapping[str, str]) -> str | None:
    url = named.get("catalog")
    if url is not None and redact_text(url) != url:
        hint = "set DELTAMIRROR_CATALOG__URL where Spark starts, and leave the option out: plans and logs show options"
        raise InvalidInput("the option catalog has a password in it", hint=hint)
    return url


def _flag(named: Mapping[str, str], name: str) -> bool:
    text = named.get(name, "false").strip().lower()
    if text not in ("true", "false"):
        raise InvalidInput(f"the option {name} has to be true or false, not {text!r}", hint="give one of them")
    return text == "true"


def _names(named: Mapping[str, str], name: str) -> list[str] | None:
    """A name, or several as a list of JSON: a column may have a comma in its name."""
    text = named.get(name)
    if text is None or not text.lstrip().startswith("["):
        return None if text is None else [text]
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.DecodeError:
        hint = f"""write .option("{name}", '["day", "region"]')"""
        raise InvalidInput(f"the option {name} is no list of names: {text}", hint=hint) from None


def _number(named: Mapping[str, str], name: str) -> int | None:
    if (text := named.get(name)) is None:
        return None
    if not text.strip().isdecimal():
        raise InvalidInput(f"the option {name} has to be a number, not {text!r}", hint="give 0 or above")
    return int(text)


def _limit(named: Mapping[str, str], name: str) -> int | None:
    if (found := _number(named, name)) == 0:
        raise InvalidInput(f"the option {name} is 0", hint="give 1 or above")
    return found
