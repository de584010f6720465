"""The rows of a commit are found by its id: no two commits share one, however unlucky the draw."""

import secrets
import time
from collections.abc import Iterator

import pytest

from deltamirror import Add, Catalog
from deltamirror.txnlog.commit.staging import StagedBody, fresh_commit_id, fresh_stage_id
from tests.support.lakes.lake import add, create, execute, opened, paths

pytestmark = pytest.mark.requirement("R37")


@pytest.fixture
def catalog(sqlite_lake: str) -> Iterator[Catalog]:
    with opened(sqlite_lake, stage_above=3) as found:
        yield found


def broken(files: list[Add]) -> Iterator[Add]:
    yield from files
    raise RuntimeError("the stream breaks")


def test_a_stage_that_fails_deletes_no_row_of_a_small_commit(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(catalog)
    # All draws within one millisecond, and the same number each time.
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    monkeypatch.setattr(secrets, "randbits", lambda _: 1)
    table.append([add("small")])
    with pytest.raises(RuntimeError):
        table.append(broken([add(f"large{number}") for number in range(5)]))
    assert paths(table) == ["small"]
    assert execute(catalog, "SELECT count(*) FROM dl_commit_chunks") == [(2,)]


def test_a_stage_that_draws_the_id_of_a_committed_one_draws_again(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(catalog)
    table.append(add(f"first{number}") for number in range(5))
    [[taken]] = execute(catalog, "SELECT max(commit_id) FROM dl_commit_chunks")
    draw = StagedBody.__init__

    def draw_the_same(self: StagedBody, *rest: object) -> None:
        draw(self, *rest)  # type: ignore[arg-type]
        self.commit_id = taken

    monkeypatch.setattr(StagedBody, "__init__", draw_the_same)
    with pytest.raises(RuntimeError):
        table.append(broken([add(f"lost{number}") for number in range(5)]))
    assert len(paths(table)) == 5
    table.append(add(f"second{number}") for number in range(5))
    assert len(paths(table)) == 10


def test_ids_of_stages_are_told_from_all_others() -> None:
    assert {fresh_commit_id() % 2 for _ in range(50)} == {0}
    assert {fresh_stage_id() % 2 for _ in range(50)} == {1}
