"""One walk through the whole path, as operators type it: on every database, on disk and on both S3 servers."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from deltamirror import Add, Catalog
from deltamirror.cli import cli
from deltamirror.config import StorageSettings
from tests.support.lakes.aging import Spot, age, spot_of
from tests.support.lakes.lake import paths
from tests.support.readers.reader import Reader
from tests.support.readers.s3_access import S3Access
from tests.support.rows.datafiles import stats_of

HEAD = 12
MIRROR = ("mirror", "--once", "--runner", "local")


class Operator:
    """Types commands; each has to end well."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self, *words: str) -> Any:
        result = CliRunner().invoke(cli, [*words, "--catalog", self._url, "--json"], prog_name="deltamirror")
        assert result.exit_code == 0, f"{words}: {result.stdout}{result.stderr}"
        return json.loads(result.stdout)

    def status(self, table: str = "t") -> Any:
        """How far the mirror of a table is."""
        return self("status", table)["tables"][0]


@pytest.fixture(params=["disk", "s3", "versitygw"])
def spot(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spot:
    """Where the table comes to lie; the environment says how to go there."""
    for name in [name for name in os.environ if name.startswith("DELTAMIRROR_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    found = spot_of(request.param, request, tmp_path)
    for name, value in _variables(found.storage).items():
        monkeypatch.setenv(f"DELTAMIRROR_STORAGE__{name}", value)
    return found


def _variables(storage: StorageSettings) -> dict[str, str]:
    if storage.endpoint is None:
        return {}
    access = S3Access.of(storage)
    keys = {"ACCESS_KEY_ID": access.access_key, "SECRET_ACCESS_KEY": access.secret_key}
    return {"ENDPOINT": access.endpoint, "REGION": access.region, "ALLOW_HTTP": "true", **keys}


def written(spot: Spot, name: str, *ids: int) -> Add:
    """A data file with these rows, and the add of it."""
    rows, sink = pa.table({"id": pa.array(ids, pa.int64())}), pa.BufferOutputStream()
    pq.write_table(rows, sink)
    data = sink.getvalue().to_pybytes()
    spot.store.put(name, data)
    return Add(
        path=name, partition_values={}, size=len(data), modification_time=1, data_change=True, stats=stats_of(rows)
    )


def committed(catalog: Catalog, spot: Spot, *versions: int) -> None:
    """One commit a version: rows come, and with every fourth version those of the one before it go."""
    table = catalog.table("t")
    for version in versions:
        if version % 4:
            table.append([written(spot, f"{version}.parquet", version, 100 + version)])
        else:
            table.remove([f"{version - 1}.parquet"])


@pytest.mark.default_on("sqlite-disk", "duckdb-disk", "postgresql-s3")
@pytest.mark.requirement("R41")
@pytest.mark.requirement("R113")
def test_commit_status_publish_checkpoint_verify_and_cleanup_hold_together(
    lake_url: str, spot: Spot, delta_rs: Reader
) -> None:
    operator = Operator(lake_url)
    retention = "delta.logRetentionDuration=interval 1 day"
    operator("table", "create", "t", "--location", spot.location, "--schema", "id long", "--property", retention)

    with spot.catalog(lake_url) as catalog:
        committed(catalog, spot, *range(1, 11))
    status = operator.status()
    assert (status["head"], status["published"], status["pending"], status["failed"]) == (10, None, 11, 0)
    assert not list(spot.store.list("_delta_log"))  # SQL first

    published = operator(*MIRROR)
    assert (published["versions"], published["checkpoints"], published["failures"]) == (11, 1, [])
    with spot.catalog(lake_url) as catalog:
        committed(catalog, spot, 11, HEAD)
    assert operator(*MIRROR)["versions"] == 2
    status = operator.status()
    assert (status["published"], status["lag_versions"], status["checkpoint"]["version"]) == (HEAD, 0, 10)

    checkpoint = operator("checkpoint", "t", "--runner", "local")
    assert (checkpoint["version"], checkpoint["written"]) == (HEAD, True)
    verified(operator, spot, (0, 5, 10, HEAD))

    with spot.catalog(lake_url) as catalog:
        age(catalog, upto=11, days=3)
    shown = operator("clean", "t", "--dry-run")
    done = operator("clean", "t")
    assert (done["log_start"], done["num_objects"], done["objects"]) == (10, 20, shown["objects"])
    status = operator.status()
    assert (status["log_start"], status["cleanup"]["num_objects"], status["lag_versions"]) == (10, 20, 0)
    verified(operator, spot, (10, 11, HEAD))

    with spot.catalog(lake_url) as catalog:
        table = catalog.table("t")
        for version in (10, 11, HEAD):
            assert spot.seen(delta_rs, version).paths == paths(table, version=version)
    seen = spot.seen(delta_rs, rows=True)
    assert (seen.version, seen.row_count) == (HEAD, 2 * len(seen.paths or ()))


def verified(operator: Operator, spot: Spot, versions: tuple[int, ...]) -> None:
    """The log says of these versions what SQL says, and every object of it is what was published."""
    for version in versions:
        assert operator("diff", f"t@{version}", f"{spot.location}@{version}")["equal"]
    [found] = operator("reconcile", "t", "--strategy", "full", "--runner", "local")["tables"]
    wrong = [found[name] for name in ("missing", "altered", "foreign", "checkpoints", "repaired", "left", "error")]
    assert wrong == [[], [], [], [], 0, 0, None]
    assert found["checked"] > len(versions)
