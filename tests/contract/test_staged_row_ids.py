"""Large commits to tables that track rows are staged with their row ids, which are moved where others were faster."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from deltamirror import Add, Catalog, Table
from deltamirror.delta import lines
from deltamirror.delta.actions import DomainMetadata
from deltamirror.errors import InvalidAction
from deltamirror.txnlog.commit import ratification, staging
from tests.support.lakes.lake import add, adds_of, body_of, create, opened, row_counts

pytestmark = [pytest.mark.requirement("R37"), pytest.mark.default_on("sqlite", "postgresql")]

ROWS = '{"numRecords":10}'
TRACKED = {"delta.enableRowTracking": "true"}


@pytest.fixture
def catalog(lake_url: str) -> Iterator[Catalog]:
    with opened(lake_url, stage_above=10, chunk_lines=4) as found:
        yield found


@pytest.fixture
def table(catalog: Catalog) -> Table:
    table = create(catalog, properties=TRACKED)
    table.append([add("first", stats=ROWS)])
    return table


def files(prefix: str, number: int = 15) -> list[Add]:
    """Files whose tags hold what looks like row ids."""
    tags = {"looks": '"baseRowId":1,"defaultRowCommitVersion":2'}
    return [add(f"{prefix}{each}", stats=ROWS, tags=tags) for each in range(number)]


def interrupted(stream: list[Add], act: Callable[[], object]) -> Iterator[Add]:
    yield from stream[:-1]
    act()
    yield stream[-1]


def require_sound(table: Table, expected: int) -> None:
    """Lines and file rows say the same, no two files share an id, and the mark is the last one."""
    listed = {add.path: add for add in adds_of(table.snapshot().files()).values()}
    assert len(listed) == expected
    written: dict[str, Add] = {}
    mark = -1
    for version in range(table.info().head + 1):
        for action in lines.decode_commit(table.commit_file(version)):
            if isinstance(action, Add):
                assert action.default_row_commit_version == version
                written[action.path] = action
            elif isinstance(action, DomainMetadata):
                mark = msgspec.json.decode(action.configuration)["rowIdHighWaterMark"]
    assert {path: (file.base_row_id, file.default_row_commit_version) for path, file in listed.items()} == {
        path: (file.base_row_id, file.default_row_commit_version) for path, file in written.items()
    }
    assert sorted(file.base_row_id or 0 for file in listed.values()) == list(range(0, 10 * expected, 10))
    assert mark == 10 * expected - 1


def test_a_staged_commit_has_the_bytes_of_a_small_one(lake_url: str, catalog: Catalog, table: Table) -> None:
    other = create(catalog, "other", properties=TRACKED)
    other.append([add("first", stats=ROWS)])
    table.append(iter(files("new")))
    with opened(lake_url) as unstaged:
        unstaged.table("other").append(files("new"))
    assert body_of(table, 2) == body_of(other, 2)
    require_sound(table, 16)


def test_ids_are_moved_past_those_of_others_before_the_lock(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("ids are moved under the lock")

    monkeypatch.setattr(ratification, "move_ids", never)
    monkeypatch.setattr(staging, "_CHUNKS_AT_ONCE", 2)
    monkeypatch.setattr(staging, "_LINES_AT_ONCE", 7)

    def others() -> None:
        table.append(files("small", 3))
        table.append(iter(files("large", 12)))

    table.append(interrupted(files("new"), others))
    require_sound(table, 1 + 15 + 15)


def test_ids_are_moved_under_the_lock_where_others_are_always_faster(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    caught_up, rounds = ratification.caught_up, iter(range(100))

    def caught_up_then_act(*arguments: Any) -> Any:
        done = caught_up(*arguments)
        table.append([add(f"faster{next(rounds)}", stats=ROWS)])
        return done

    monkeypatch.setattr("deltamirror.txnlog.commit.preparation.caught_up", caught_up_then_act)
    table.append(interrupted(files("new"), lambda: table.append(files("small", 3))))
    require_sound(table, 1 + 15 + 3 + next(rounds))


def test_a_file_that_is_added_again_keeps_its_ids(table: Table) -> None:
    again = msgspec.structs.replace(add("first", stats=ROWS, size=7), base_row_id=0, default_row_commit_version=1)
    table.append(interrupted([again, *files("new")], lambda: table.append([add("other", stats=ROWS)])))
    found = adds_of(table.snapshot().files())[("first", None)]
    assert (found.size, found.base_row_id, found.default_row_commit_version) == (7, 0, 1)


@pytest.mark.parametrize("wrong", [add("x"), add("x", stats=ROWS, base_row_id=500)])
def test_a_file_that_cannot_have_ids_leaves_nothing(catalog: Catalog, table: Table, wrong: Add) -> None:
    before = row_counts(catalog)
    with pytest.raises(InvalidAction) as caught:
        table.append(iter([*files("new"), wrong]))
    assert caught.value.index == 15
    assert row_counts(catalog) == before


@pytest.mark.requirement("R5")
def test_a_file_takes_no_row_ids_of_another_one(lake: Catalog) -> None:
    table = create(lake, properties=TRACKED)
    table.append([add("first", stats=ROWS)])
    known: dict[str, Any] = {"stats": ROWS, "base_row_id": 0, "default_row_commit_version": 1}
    for path, base in (("second", 0), ("first", 1)):
        with pytest.raises(InvalidAction) as caught:
            table.append([add(path, **{**known, "base_row_id": base})])
        assert (caught.value.rule, caught.value.found) == ("add.row-ids.others", str(base))
    table.remove(["first"])
    assert table.append([add("first", **known)]).versions == {"t": 3}
    table.append([add("second", stats=ROWS)])
    ids = adds_of(table.snapshot().files())
    assert [ids[path, None].base_row_id for path in ("first", "second")] == [0, 10]
