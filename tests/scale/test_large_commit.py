"""A commit of a million files: published in bounded memory, with the bytes that its chunks have one after the other."""

import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from msgspec.structs import replace

from deltamirror import Add, Catalog
from deltamirror.config import StorageSettings
from deltamirror.storage.open import store_at
from deltamirror.txnlog.content.chunks import read_commit
from tests.support.lakes.lake import settings_for
from tests.support.readers.s3_access import S3Access
from tests.support.servers.s3_server import S3Server

pytestmark = pytest.mark.scale

FILES = 1_000_000
GIBIBYTE = 1024**3
OWN = {"DELTAMIRROR_MIRROR__RUNNER": "local", "DELTAMIRROR_STORAGE__ALLOW_HTTP": "true"}
KEY = "_delta_log/00000000000000000001.json"

PUBLISH = """
import json, os, sys
from deltamirror import MirrorEngine
from deltamirror.config import load

with MirrorEngine(sys.argv[1], settings=load(environment=os.environ).settings) as engine:
    versions = engine.run(once=True).versions
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"versions": versions, "peak": int(peak.split()[1]) * 1024}))
"""


def files() -> Iterator[Add]:
    """Files without end, with names and statistics that repeat nothing."""
    chance = random.Random(1)
    while True:
        name, low = chance.getrandbits(128), chance.randrange(10**9)
        stats = f'{{"numRecords":{low % 9999},"minValues":{{"id":{low}}},"maxValues":{{"id":{low + 999}}}}}'
        yield Add(
            path=f"part-{name:032x}.parquet",
            partition_values={},
            size=low,
            modification_time=1_700_000_000_000,
            data_change=True,
            stats=stats,
        )


def stored_digest(catalog: Catalog) -> str:
    digest = hashlib.sha256()
    with catalog.database.read() as connection:
        commit_id = connection.exec_driver_sql("SELECT commit_id FROM dl_table_versions WHERE version = 1").scalar_one()
        for data in read_commit(connection, commit_id):
            digest.update(data)
    return digest.hexdigest()


@pytest.mark.requirement("R31")
@pytest.mark.parametrize("place", ["disk", "S3"])
def test_a_commit_of_a_million_files_is_published_within_a_gibibyte(
    place: str,
    sqlite_lake: str,
    tmp_path: Path,
    s3_server: S3Server,
    s3_bucket: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    location = str(tmp_path / "t") if place == "disk" else f"s3://{s3_bucket}/t"
    storage = StorageSettings() if place == "disk" else s3_server.settings()
    for name, value in {**S3Access.of(s3_server.settings()).environment(), **OWN}.items():
        monkeypatch.setenv(name, value)
    with Catalog(settings=replace(settings_for(sqlite_lake), storage=storage)) as catalog:
        table = catalog.create_table("t", location=location, schema="id long")
        table.append(islice(files(), FILES))
        expected = stored_digest(catalog)
    done = subprocess.run([sys.executable, "-c", PUBLISH, sqlite_lake], capture_output=True, check=True, timeout=600)
    told = json.loads(done.stdout)
    assert told["versions"] == 2
    assert told["peak"] < GIBIBYTE
    found = store_at(location, storage).read(KEY)
    assert found is not None
    assert found.meta.size > 200_000_000
    assert hashlib.sha256(found.data).hexdigest() == expected
