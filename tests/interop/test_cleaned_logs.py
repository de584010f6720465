"""Logs that were cleaned: Delta Lake on Spark and delta-rs open the versions in the window, and none before it.

The default suite has a local disk, and one cleaning of a log with classic checkpoints; ``make soak`` has S3, sidecars,
and cleanings that follow one another as the versions of a table grow old.
"""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from deltamirror import Catalog, Table
from tests.support.lakes.aging import HEAD, INTERVAL, START, Spot, age, cleaning, lived, spot_of
from tests.support.lakes.lake import paths
from tests.support.readers.reader import Reader, RequestFailed

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.requirement("R20")]

FORMS: dict[str, dict[str, Any]] = {
    "classic": {},
    "sidecars": {"properties": {"delta.checkpointPolicy": "v2"}},
}


def expected(table: Table, first: int) -> dict[int, list[str]]:
    """The files of every version from one on, as SQL has them."""
    return {version: paths(table, version=version) for version in range(first, HEAD + 1)}


def seen_by_spark(delta_spark: Reader, folder: Path, versions: Collection[int]) -> dict[int, list[str]]:
    """The files of some versions, as Delta Lake on Spark has them."""
    found = delta_spark.states(folder, sorted(versions))
    return {version: sorted(filter(None, map(added_path, lines))) for version, lines in found.items()}


def added_path(line: str) -> str | None:
    add = json.loads(line).get("add")
    return None if add is None else unquote(add["path"])


def seen_one_by_one(reader: Reader, spot: Spot, first: int) -> dict[int, list[str] | None]:
    return {version: spot.seen(reader, version).paths for version in range(first, HEAD + 1)}


@pytest.mark.default_on("sqlite")
@pytest.mark.default_when(parameters=lambda those: those["form"] == "classic")
@pytest.mark.parametrize("form", FORMS)
def test_spark_and_delta_rs_open_the_versions_in_the_window_after_a_cleaning(
    lake: Catalog, form: str, tmp_path: Path, delta_spark: Reader, delta_rs: Reader
) -> None:
    folder = tmp_path / "t"
    with cleaning(lake, checkpoint_sidecar_actions=3) as engine:
        table = lived(lake, engine, str(folder), **FORMS[form])
        age(lake, upto=12)
        assert engine.clean("t").log_start == START
    wanted = expected(table, START)
    some = (START, START + 1, HEAD)  # the checkpoint, what follows it, and the newest: each takes Spark some seconds
    assert seen_by_spark(delta_spark, folder, some) == {version: wanted[version] for version in some}
    assert {version: delta_rs.snapshot(folder, version).paths for version in wanted} == wanted
    with pytest.raises(RequestFailed):
        delta_spark.snapshot(folder, START - 1)


@pytest.mark.elsewhere
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["disk", "s3"])
def test_spark_and_delta_rs_open_every_version_after_each_of_many_cleanings(
    sqlite_lake: str,
    form: str,
    kind: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    delta_spark: Reader,
    delta_rs: Reader,
) -> None:
    spot = spot_of(kind, request, tmp_path)
    with spot.catalog(sqlite_lake) as catalog, cleaning(catalog, spot.storage, checkpoint_sidecar_actions=3) as engine:
        table = lived(catalog, engine, spot.location, **FORMS[form])
        for oldest in range(INTERVAL, HEAD + 1, INTERVAL):
            age(catalog, upto=oldest)
            first = engine.clean("t").log_start
            wanted = expected(table, first)
            for reader in (delta_spark, delta_rs):
                assert seen_one_by_one(reader, spot, first) == wanted, (reader.name, oldest)
