"""The settings by which stock Delta Lake jobs commit through SQL."""

from pathlib import Path
from typing import Any

import pytest

from deltamirror.config import load
from deltamirror.errors import DeltaMirrorError, InvalidInput, MissingExtra
from deltamirror.spark import configure, transaction
from deltamirror.spark.logstore import CATALOG, CATALOG_SETTING, LOG_STORE, log_store_jar

SERVER = "https://mirror.example:8765"


class Builder:
    """As much of ``SparkSession.builder`` as is needed."""

    def __init__(self, **options: str) -> None:
        self._options = {name.replace("_", "."): value for name, value in options.items()}

    def config(self, key: str, value: str) -> "Builder":
        self._options[key] = value
        return self


def test_a_builder_gets_the_jar_the_schemes_and_the_server() -> None:
    builder = Builder()
    assert configure(builder, server=SERVER, token="dm_x", schemes="s3a", locations=["s3a://a/", "s3a://b/"]) is builder
    assert builder._options == {
        "spark.jars": str(log_store_jar()),
        "spark.delta.logStore.s3a.impl": LOG_STORE,
        "spark.hadoop.deltamirror.server": SERVER,
        "spark.hadoop.deltamirror.token": "dm_x",
        "spark.hadoop.deltamirror.locations": "s3a://a/,s3a://b/",
    }


def test_other_jars_stay_and_a_token_is_not_needed_where_the_driver_has_one() -> None:
    builder = configure(Builder(spark_jars="a.jar"), server=SERVER)
    assert builder._options["spark.jars"] == f"a.jar,{log_store_jar()}"
    assert {f"spark.delta.logStore.{scheme}.impl" for scheme in ("file", "s3a", "abfss", "gs")} <= set(builder._options)
    assert not [name for name in builder._options if name.endswith("token")]


def test_transactions_take_the_place_of_the_catalog_of_delta_lake_and_of_no_other() -> None:
    builder = configure(Builder(), server=SERVER)
    assert CATALOG_SETTING not in builder._options
    builder._options[CATALOG_SETTING] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    configure(builder, server=SERVER, transactions=True)
    assert builder._options[CATALOG_SETTING] == CATALOG
    assert {"spark.hadoop.fs.tx.impl", "spark.delta.logStore.tx.impl"} <= set(builder._options)
    builder._options[CATALOG_SETTING] = "io.unitycatalog.spark.UCSingleCatalog"
    with pytest.raises(InvalidInput, match="UCSingleCatalog"):
        configure(builder, server=SERVER, transactions=True)


@pytest.mark.parametrize("spark", [None, "spark", Builder()], ids=range(3))
def test_a_session_that_is_none_gets_no_transaction(spark: object) -> None:
    with pytest.raises(InvalidInput, match="classic SparkSession"), transaction(spark):
        pass


WRONG: tuple[dict[str, Any], ...] = (
    {"server": "mirror.example:8765"},
    {"server": ""},
    {"server": None},
    {"server": SERVER, "token": 7},
    {"server": SERVER, "schemes": 7},
    {"server": SERVER, "locations": [None]},
    {"server": SERVER, "transactions": "yes"},
    {"server": SERVER, "builder": "builder"},
    {"server": SERVER, "builder": None},
)


@pytest.mark.parametrize("given", WRONG, ids=range(len(WRONG)))
def test_a_wrong_value_is_refused_and_sets_nothing(given: dict[str, Any]) -> None:
    builder = Builder()
    with pytest.raises(InvalidInput):
        configure(**{"builder": builder, **given})
    assert builder._options == {}


def test_a_jar_that_was_not_built_is_named_with_the_command_that_builds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_file", lambda _: False)
    with pytest.raises(MissingExtra) as caught:
        configure(Builder(), server=SERVER)
    error: DeltaMirrorError = caught.value
    assert "make setup" in error.hint


def test_the_variable_of_the_token_is_no_setting() -> None:
    assert load(environment={"DELTAMIRROR_TOKEN": "dm_x"}).settings == load(environment={}).settings
