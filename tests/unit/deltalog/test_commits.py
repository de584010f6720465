"""Commits are read as they were listed, in blocks of whole lines."""

from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.config import StorageSettings
from deltamirror.delta import bounds
from deltamirror.deltalog import commits
from deltamirror.deltalog.commits import read_blocks, read_commits, read_whole
from deltamirror.deltalog.listing import read_listing
from deltamirror.errors import CapacityExceeded, Transient
from deltamirror.storage.open import store_at
from deltamirror.storage.store import ETag, Meta
from tests.support.imports.foreign_logs import HISTORY, put_log, store_in_memory


@given(data=st.lists(st.sampled_from([b"a", b"bcd", b"\n"]), min_size=1).map(b"".join), size=st.integers(1, 7))
def test_blocks_are_whole_lines_and_together_the_file(data: bytes, size: int) -> None:
    store = store_at(f"memory://{uuid4()}/t", StorageSettings())
    store.put("x", data)
    blocks = list(read_blocks(store, Meta("x", len(data), 0, ETag("")), block_bytes=size))
    assert b"".join(blocks) == data
    assert all(block.endswith(b"\n") for block in blocks[:-1])
    assert all(blocks)


def test_many_commits_come_in_order() -> None:
    store = store_in_memory()
    lines = {version: b"%d\n" % version for version in range(100)}
    put_log(store, lines)
    listed = read_listing(store).commits
    found = [b"".join(blocks) for blocks in read_commits(store, [listed[version] for version in range(100)])]
    assert found == list(lines.values())


def test_a_line_without_an_end_is_not_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (bounds, commits):
        monkeypatch.setattr(module, "LONGEST_LINE", 10)
    store = store_in_memory()
    put_log(store, {0: b"short\n" + b"x" * 100})
    with pytest.raises(CapacityExceeded, match=r"00000\.json .* a line of more than 10 bytes"):
        list(read_blocks(store, read_listing(store).commits[0], block_bytes=4))


def test_a_large_commit_comes_in_blocks() -> None:
    store, line = store_in_memory(), b"x" * 1023 + b"\n"
    put_log(store, {0: line * 10_000})
    (blocks,) = [list(each) for each in read_commits(store, [read_listing(store).commits[0]])]
    assert len(blocks) == 2
    assert b"".join(blocks) == line * 10_000


@pytest.mark.parametrize("data", [None, b"other\n"])
def test_what_changed_since_it_was_listed_is_to_be_tried_again(data: bytes | None) -> None:
    store = store_in_memory()
    put_log(store, {0: HISTORY[0]})
    meta = read_listing(store).commits[0]
    store.delete([meta.key])
    if data is not None:
        store.put(meta.key, data)
    with pytest.raises(Transient, match="is not what it was"):
        read_whole(store, meta)
    with pytest.raises(Transient, match="is not what it was"):
        list(read_blocks(store, meta))
