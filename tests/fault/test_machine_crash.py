"""A machine that crashes takes the names that its disk did not have yet: none of a version that is recorded."""

from collections.abc import Callable
from pathlib import Path

import pytest

from deltamirror import Catalog
from deltamirror.storage.disk import DiskStore
from tests.support.mirrors.local import (
    append,
    committed_files,
    local_settings,
    log_of,
    make_table,
    mirror_of,
    published_files,
)
from tests.support.stores.faulty import runner_over
from tests.support.stores.forgetful import Machine
from tests.support.suite.examples import at_some_moments

_HEAD = 6


@pytest.mark.requirement("R43")
@pytest.mark.requirement("R44")
@pytest.mark.parametrize(
    "keep",
    [
        pytest.param(lambda place: False, id="all names are lost"),
        pytest.param(lambda place: place % 3 > 0, id="some names are lost, in no order"),
    ],
)
@at_some_moments
def test_a_recorded_version_outlives_a_crash_of_the_machine_and_the_others_come_again(
    tmp_path: Path, keep: Callable[[int], bool], every: int
) -> None:
    seen = set[int]()
    for crash_at in range(1, 1_000, every):
        machine = Machine(crash_at)
        with Catalog(f"sqlite:///{tmp_path / f'{crash_at}.db'}") as catalog:
            catalog.init()
            table = make_table(catalog, tmp_path / str(crash_at))
            append(table, _HEAD)
            expected = committed_files(table)
            runner = runner_over(catalog, local_settings(batch_versions=4), machine.wrap)
            with mirror_of(catalog, runner=runner, batch_versions=4, checkpoint_enabled=False) as engine:
                engine.run(once=True)
            machine.crash(DiskStore(tmp_path / str(crash_at) / "t"), keep=keep)
            recorded, left = table.info().published, published_files(table)
            assert left.items() <= expected.items()
            versions = set(sorted(expected)[: 0 if recorded is None else recorded + 1])
            assert left.keys() >= versions
            assert {path.stem for path in log_of(table).glob("*.crc")} >= {Path(name).stem for name in versions}
            with mirror_of(catalog) as engine:
                assert engine.run(once=True).failures == []
            assert table.info().published == table.info().head == _HEAD
            assert published_files(table) == expected
        seen.add(-1 if recorded is None else recorded)
        if machine.called < crash_at:  # it came to its end
            break
    assert seen == {-1, 3, _HEAD}


@pytest.mark.requirement("R43")
def test_objects_of_a_process_that_died_before_its_sync_count_once_another_process_synced_them(tmp_path: Path) -> None:
    machine = Machine(crash_at=0)
    with Catalog(f"sqlite:///{tmp_path / 'lake.db'}") as catalog:
        catalog.init()
        table = make_table(catalog, tmp_path)
        append(table, _HEAD)

        def run() -> None:
            runner = runner_over(catalog, local_settings(), machine.wrap)
            with mirror_of(catalog, runner=runner, checkpoint_enabled=False) as engine:
                engine.run(once=True)

        machine.dies_at_sync = True
        run()
        assert (table.info().published, published_files(table)) == (None, committed_files(table))
        machine.dies_at_sync = False
        run()
        assert table.info().published == _HEAD
        machine.crash(DiskStore(tmp_path / "t"), keep=lambda place: False)
        assert published_files(table) == committed_files(table)
