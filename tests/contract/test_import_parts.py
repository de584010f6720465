"""The parts of a history from elsewhere, as values: their bytes, their rows, and what is wrong with a file."""

import hashlib
import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from deltamirror.delta import lines
from deltamirror.delta.actions import Add, Remove
from deltamirror.delta.replay import State, checkpoint_actions
from deltamirror.deltalog.checkpoint.layout import FILES, REMOVES
from deltamirror.errors import (
    CapacityExceeded,
    InvalidAction,
    InvalidInput,
    InvalidLine,
    Unsupported,
)
from deltamirror.txnlog.content.rows import file_row, remove_row
from deltamirror.txnlog.imports.parts import base_part, imported_commit_id
from tests.support.imports.parts import base_parts, file_parts
from tests.support.imports.small_history import HISTORY, METADATA, OPENING, commit, file
from tests.support.lakes.histories import PROTOCOL, odd_adds, odd_removes
from tests.support.lakes.lake import remove_of


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(HISTORY[1], id="as the reference writer has it"),
        pytest.param(HISTORY[1].rstrip(b"\n"), id="without the last newline"),
        pytest.param(b"\n \n" + HISTORY[1].replace(b"\n", b"\r\n\n"), id="blank lines and returns"),
        pytest.param(b"", id="empty"),
        pytest.param(commit(*(file(f"{number:0>400}") for number in range(500))), id="large"),
    ],
)
@pytest.mark.parametrize("size", [None, 1, 3])
def test_the_parts_of_a_file_have_its_bytes_and_its_actions(data: bytes, size: int | None) -> None:
    parts = file_parts(9, 4, data, lines=size)
    decoded = lines.decode_commit(data)
    assert b"".join(part.chunk.decoded() for part in parts) == data
    assert [part.part for part in parts] == list(range(len(parts)))
    assert [part.last for part in parts] == [False] * (len(parts) - 1) + [True]
    assert sum(part.num_lines for part in parts) == len(decoded)
    if len(parts) == 1:
        assert parts[0].chunk.digest == hashlib.sha256(data).digest()
    commit_id, rows = imported_commit_id(9, 4), [row for part in parts for row in part.added]
    expected = [file_row(9, commit_id, number, each) for number, each in enumerate(decoded) if isinstance(each, Add)]
    assert rows == expected
    assert [each for part in parts for each in part.small] == [e for e in decoded if not isinstance(e, Add | Remove)]
    assert pickle.loads(pickle.dumps(parts))[0].chunk == parts[0].chunk  # noqa: S301  our own bytes


def test_a_small_file_is_one_plain_chunk_and_a_large_one_is_compressed() -> None:
    large = commit(*(file(f"{number:0>400}") for number in range(500)))
    assert [part.chunk.codec for part in file_parts(1, 0, HISTORY[0])] == ["plain"]
    assert [part.chunk.codec for part in file_parts(1, 0, large)] == ["zstd"]
    assert {part.chunk.codec for part in file_parts(1, 0, HISTORY[1], lines=1)} == {"zstd"}


WRONG = [
    pytest.param(HISTORY[1][:-20], InvalidLine, "line 4", id="truncated"),
    pytest.param(HISTORY[1] + b"{}\n", InvalidLine, "line 5", id="no action"),
    pytest.param(HISTORY[1] + b'{"add":{"path":"x"}}', InvalidAction, "line 5", id="no add"),
    pytest.param(b"\n" + HISTORY[1] + b'{"magic":{}}', Unsupported, "line 6", id="unknown action"),
    pytest.param(commit(METADATA, PROTOCOL, METADATA), InvalidAction, "line 3", id="two metaData"),
    pytest.param(commit(PROTOCOL, PROTOCOL), InvalidAction, "line 2", id="two protocols"),
    pytest.param(commit(file("a%2f"), file("b"), file("a%2F")), InvalidAction, "line 3", id="a path twice"),
    pytest.param(commit(file("a"), remove_of(file("a"))), InvalidAction, "line 2", id="added and removed"),
    pytest.param(
        b'{"sidecar":{"path":"x","sizeInBytes":1,"modificationTime":1}}', InvalidAction, "line 1", id="sidecar"
    ),
]


@pytest.mark.parametrize(("data", "kind", "place"), WRONG)
@pytest.mark.parametrize("size", [None, 1])
def test_what_is_wrong_with_a_file_is_named_by_file_and_line(
    data: bytes, kind: type[Exception], place: str, size: int | None
) -> None:
    with pytest.raises(kind, match=f"7.json, {place}: ") as caught:
        file_parts(1, 7, data, lines=size)
    assert pickle.loads(pickle.dumps(caught.value)).message == str(caught.value)  # noqa: S301  our own bytes


@given(adds=st.lists(odd_adds, max_size=5), removes=st.lists(odd_removes, max_size=5))
def test_rows_made_by_columns_are_the_rows_made_one_by_one(adds: list[Add], removes: list[Remove]) -> None:
    state = State()
    state.files = {(str(number), None): each for number, each in enumerate(adds) if _fits(each)}
    state.tombstones = {(str(number), None): each for number, each in enumerate(removes) if _fits(each)}
    state.apply(OPENING)
    [part] = base_parts(3, 5, state)
    made = [each for each in checkpoint_actions(state, tombstones_after=-1) if isinstance(each, Add | Remove)]
    commit_id = imported_commit_id(3, 5)
    files = [file_row(3, commit_id, 0, _in_order(each)) for each in made if isinstance(each, Add)]
    tombstones = [remove_row(3, commit_id, 0, _in_order(each)) for each in made if isinstance(each, Remove)]
    assert sorted(map(repr, map(_without_ordinal, part.added))) == sorted(map(repr, map(_without_ordinal, files)))
    assert sorted(map(repr, map(_without_ordinal, part.removed))) == sorted(
        map(repr, map(_without_ordinal, tombstones))
    )
    assert [row[1] for row in part.added] == sorted(row[1] for row in part.added)
    assert len({row[3] for row in part.added}) == len(part.added)


def _fits(action: Add | Remove) -> bool:
    """Checkpoints have fewer bits than lines."""
    return action.deletion_vector is None or action.deletion_vector.cardinality >= 0


def _in_order(action: Any) -> Any:
    """Maps of a checkpoint are in the order of their keys."""
    maps = {name: getattr(action, name) for name in ("partition_values", "tags")}
    return replace(
        action, **{name: None if each is None else dict(sorted(each.items())) for name, each in maps.items()}
    )


def _without_ordinal(row: tuple[object, ...]) -> tuple[object, ...]:
    return (*row[:3], *row[4:])


def test_a_tag_without_a_value_is_no_tag_and_an_add_without_partition_values_has_none() -> None:
    row = {"path": "a", "size": 1, "modificationTime": 2, "tags": [("x", None), ("y", "1")]}
    [made] = base_part(
        pa.Table.from_pylist([row], FILES), REMOVES.empty_table(), [], table_id=1, version=2, part=0, modified=3
    ).added
    assert (made[6], made[9], made[11]) == ("{}", False, '{"y":"1"}')


@pytest.mark.parametrize("field", ["path", "size", "modificationTime"])
def test_a_checkpoint_that_lacks_what_an_add_has_to_have_is_refused(field: str) -> None:
    row = {"path": "a", "size": 1, "modificationTime": 2, field: None}
    files = pa.Table.from_pylist([row], FILES)
    with pytest.raises(InvalidInput, match=f"add without {field}"):
        base_part(files, REMOVES.empty_table(), [], table_id=1, version=2, part=0, modified=3)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(CapacityExceeded, match="part 2048"):
        base_part(FILES.empty_table(), REMOVES.empty_table(), [], table_id=1, version=2, part=2048, modified=3)
    with pytest.raises(CapacityExceeded, match="4294967296"):
        imported_commit_id(1, 2**32)
