"""Versions that one process could not publish are published by another one, without anybody's help."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine
from deltamirror.config import StorageSettings
from deltamirror.delta.names import LOG_DIRECTORY, commit_name
from deltamirror.storage.open import store_at
from tests.support.faults.rules import UNAVAILABLE
from tests.support.faults.s3_proxy import S3Proxy, is_put
from tests.support.interfaces.commands import following, typed, variables
from tests.support.lakes.lake import execute
from tests.support.mirrors.local import append, committed_files, local_settings

TABLES = [f"t{number:02}" for number in range(20)]
VERSIONS = range(10)
ATTEMPTS = "SELECT owner, outcome, count(*) FROM dl_mirror_attempts WHERE lane = 'commits' GROUP BY owner, outcome"
STATES = "SELECT state, count(*) FROM dl_mirror_status GROUP BY state"


def with_lost_logs(url: str, bucket: str, storage: StorageSettings) -> None:
    """Twenty tables of ten versions, all published; then the commits of their logs are deleted."""
    settings = replace(local_settings(), storage=storage)
    with Catalog(url, settings=settings) as catalog, MirrorEngine(url, settings=settings) as engine:
        for name in TABLES:
            append(catalog.create_table(name, location=f"s3://{bucket}/{name}", schema="id long"), len(VERSIONS) - 1)
        assert engine.run(once=True).failures == []
        for name in TABLES:
            keys = [f"{LOG_DIRECTORY}/{commit_name(version)}" for version in VERSIONS]
            store_at(f"s3://{bucket}/{name}", storage).delete(keys)


def put_order(proxy: S3Proxy) -> dict[str, list[str]]:
    """The commits of each table in the order in which the store had them."""
    found = defaultdict(list)
    for access in sorted(proxy.log, key=lambda access: access.completed or 0):
        if is_put(access) and access.completed and access.key.endswith(".json"):
            _, table, _, name = access.key.split("/")
            found[table].append(name)
    return found


@pytest.mark.requirement("R52")
@pytest.mark.requirement("R50")
def test_200_failed_versions_of_20_tables_are_published_in_order_by_another_process(
    sqlite_lake: str, tmp_path: Path, s3_proxy: S3Proxy, s3_bucket: str, s3_settings: StorageSettings
) -> None:
    storage = replace(s3_proxy.settings(s3_settings), retries=0)
    with_lost_logs(sqlite_lake, s3_bucket, s3_settings)
    common = {
        **variables(storage),
        "DELTAMIRROR_CATALOG__URL": sqlite_lake,
        "DELTAMIRROR_MIRROR__RUNNER": "local",
        "DELTAMIRROR_MIRROR__POLL": "0.05",
    }

    s3_proxy.fail(UNAVAILABLE, is_put, times=None)
    alone = {**common, "DELTAMIRROR_BREAKER__ENABLED": "false"}
    failing = typed("reconcile", "--strategy", "full", "--json", folder=tmp_path, settings=alone)
    assert failing.returncode != 0
    assert sum(len(table["missing"]) for table in json.loads(failing.stdout)["tables"]) == 200
    with Catalog(sqlite_lake) as catalog:
        assert execute(catalog, STATES) == [("FAILED", 200)]
        who_failed = {owner for owner, _, _ in execute(catalog, ATTEMPTS)}
        assert len(who_failed) == 1

        s3_proxy.heal()
        with following(folder=tmp_path, settings=common) as service:
            catalog.wait_until_published(dict.fromkeys(TABLES, VERSIONS[-1]), seconds=120)
            owner = f":{service.process.pid}:"
            status, _, _ = service.stop()
        assert status == 0
        assert execute(catalog, STATES) == [("SUCCESS", 200)]
        done = {name: count for name, outcome, count in execute(catalog, ATTEMPTS) if outcome == "SUCCESS"}
        assert sum(done.values()) == 200
        assert all(owner in name and name not in who_failed for name in done)
        assert put_order(s3_proxy) == {name: [commit_name(version) for version in VERSIONS] for name in TABLES}
        for name in TABLES:
            store = store_at(f"s3://{s3_bucket}/{name}", s3_settings)
            for file, data in committed_files(catalog.table(name)).items():
                found = store.read(f"{LOG_DIRECTORY}/{file}")
                assert found is not None
                assert found.data == data
