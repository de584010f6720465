"""Stock Delta Lake jobs commit through SQL: the settings of a session, and the jar of the LogStore that they name."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol, TypeVar

from deltamirror.arguments import flag, optional_text, shown, text, texts
from deltamirror.errors import InvalidInput, MissingExtra

LOG_STORE: Final = "io.deltamirror.spark.DeltaMirrorLogStore"
CATALOG: Final = "io.deltamirror.spark.TransactionCatalog"
CATALOG_SETTING: Final = "spark.sql.catalog.spark_catalog"
_CATALOG_OF_DELTA: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_TRANSACTIONS: Final[Mapping[str, str]] = {
    CATALOG_SETTING: CATALOG,
    "spark.hadoop.fs.tx.impl": "io.deltamirror.spark.TransactionFileSystem",
    "spark.delta.logStore.tx.impl": "io.deltamirror.spark.TransactionLogStore",
}
_JARS: Final = "spark.jars"
_SCHEMES: Final = ("file", "s3", "s3a", "abfs", "abfss", "gs")


class Builder(Protocol):
    """``SparkSession.builder``."""

    def config(self, key: str, value: str) -> object:
        """Set one setting."""


B = TypeVar("B", bound=Builder)


def configure(
    builder: B,
    *,
    server: str,
    token: str | None = None,
    schemes: Iterable[str] | str = _SCHEMES,
    locations: Iterable[str] | str = (),
    transactions: bool = False,
) -> B:
    """Let the Delta Lake jobs of a session commit through ``deltamirror serve``; the builder.

    ``token`` may write to the tables; without one, the driver takes it from the variable ``DELTAMIRROR_TOKEN``.
    ``locations`` are beginnings of addresses: the server is asked about tables below them alone. ``transactions`` puts
    a subclass in the place of Delta Lake's catalog, by which ``deltamirror.spark.transaction`` finds tables.
    """
    if not callable(getattr(builder, "config", None)):
        raise InvalidInput(f"builder has to be SparkSession.builder, not {shown(builder)}")
    settings = settings_of_jobs(
        server=server, token=token, schemes=schemes, locations=locations, transactions=transactions
    )
    known = getattr(builder, "_options", {})
    if CATALOG_SETTING in settings:
        _require_replaceable(known.get(CATALOG_SETTING))
    for name, value in settings.items():
        builder.config(name, f"{known[_JARS]},{value}" if name == _JARS and known.get(_JARS) else value)
    return builder


def settings_of_jobs(
    *,
    server: str,
    token: str | None = None,
    schemes: Iterable[str] | str = _SCHEMES,
    locations: Iterable[str] | str = (),
    transactions: bool = False,
) -> Mapping[str, str]:
    """The settings of Spark, by their names."""
    given, prefixes = optional_text(token, "token"), texts(locations, "locations")
    return {
        _JARS: str(log_store_jar()),
        **{f"spark.delta.logStore.{scheme}.impl": LOG_STORE for scheme in texts(schemes, "schemes")},
        "spark.hadoop.deltamirror.server": _address(server),
        **({"spark.hadoop.deltamirror.token": given} if given is not None else {}),
        **({"spark.hadoop.deltamirror.locations": ",".join(prefixes)} if prefixes else {}),
        **(_TRANSACTIONS if flag(transactions, "transactions") else {}),
    }


def log_store_jar() -> Path:
    """The jar, which the wheel has; in a working copy, ``make setup`` builds it."""
    jar = Path(__file__).parent / "jars" / "deltamirror-logstore.jar"
    if not jar.is_file():
        raise MissingExtra(
            f"the LogStore for Delta Lake on Spark was not built: there is no {jar}",
            hint="install the wheel of deltamirror; in a working copy, run `make setup`",
            extra="spark",
        )
    return jar


def _require_replaceable(catalog: str | None) -> None:
    if catalog not in (None, CATALOG, _CATALOG_OF_DELTA):
        raise InvalidInput(
            f"{CATALOG_SETTING} is {shown(catalog)}, and transactions need the place of it",
            hint=f"transactions work with {_CATALOG_OF_DELTA} alone",
        )


def _address(server: str) -> str:
    address = text(server, "server")
    if not address.startswith(("http://", "https://")):
        raise InvalidInput(f"server: {address!r:.100} is no address", hint="such as https://mirror.example:8765")
    return address
