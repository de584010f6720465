"""Objects against what they should be: read in few requests, whatever their pieces, and never taken for another."""

import hashlib
import pickle
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.config import StorageSettings
from deltamirror.deltalog import comparison
from deltamirror.deltalog.comparison import difference, list_log
from deltamirror.errors import InvalidLocation
from deltamirror.pipeline.run.spark.inspector import differing, in_executor_store
from deltamirror.pipeline.run.spark.mapping import answer_items
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.open import store_at
from deltamirror.work import ExpectedObject, ObjectDifference
from tests.support.logs.commit_units import commit_key, watched

KEY = commit_key(0)


def expected(*pieces: bytes, version: int = 0) -> ExpectedObject:
    sized = tuple((len(piece), hashlib.sha256(piece).digest()) for piece in pieces)
    return ExpectedObject(version=version, key=commit_key(version), pieces=sized)


def found(data: bytes) -> ObjectDifference:
    return ObjectDifference(version=0, key=KEY, found=hashlib.sha256(data).hexdigest())


@given(pieces=st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=6), other=st.binary(max_size=40))
def test_an_object_differs_if_and_only_if_its_bytes_do(pieces: list[bytes], other: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "_RANGE", 7)
        store = store_at("memory://comparison/t", StorageSettings())
        data = b"".join(pieces)
        store.put(KEY, data)
        assert difference(store, expected(*pieces)) is None
        for wrong in {data + b"x", data[:-1], b"x" + data[1:], other} - {data, b""}:
            store.put(KEY, wrong)
            assert difference(store, expected(*pieces)) == found(wrong)
        store.delete([KEY])
        assert difference(store, expected(*pieces)) == ObjectDifference(version=0, key=KEY, found="")


def test_a_small_object_is_one_request(tmp_path: Path) -> None:
    store, calls = watched(store_at(str(tmp_path), StorageSettings()))
    store.put(KEY, b"one\ntwo\n")
    assert difference(store, expected(b"one\n", b"two\n")) is None
    assert calls.of("read_range") == [KEY]


def test_a_listing_tells_commits_checksums_and_others_apart_and_looks_no_further(tmp_path: Path) -> None:
    store = store_at(str(tmp_path), StorageSettings())
    names = [f"{version:020}.json" for version in (0, 1, 2)] + [f"{2:020}.crc", f"{1:020}.checkpoint.parquet"]
    for name in (*names, "_last_checkpoint", "_sidecars/x.parquet", f"_deltamirror/{1:020}.json.abc"):
        store.put(f"_delta_log/{name}", b"x")
    listed = list_log(store, first=1)
    assert (list(listed.commits), list(listed.checksums), list(listed.others)) == (
        [1, 2],
        [2],
        [f"{1:020}.checkpoint.parquet"],
    )


def test_executors_answer_with_what_differs_or_with_what_went_wrong(tmp_path: Path) -> None:
    store = store_at(str(tmp_path / "table"), StorageSettings())
    store.put(KEY, b"same\n")
    (tmp_path / "file").write_text("in the way")
    right, wrong = (StoreAddress.of(str(tmp_path / name), StorageSettings()) for name in ("table", "file"))

    def answer(address: StoreAddress, *objects: ExpectedObject) -> tuple[int, object]:
        items = iter([pickle.dumps((0, objects))])
        [found] = answer_items(partial(in_executor_store, address, differing), items)
        answered: tuple[int, object] = pickle.loads(found)  # noqa: S301 -- ours
        return answered

    found = answer(right, expected(b"same\n"), expected(b"gone\n", version=1))
    assert found == (0, [ObjectDifference(version=1, key=commit_key(1), found="")])
    assert isinstance(answer(wrong, expected(b"x"))[1], InvalidLocation)
