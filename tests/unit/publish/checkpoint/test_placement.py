"""An object of a checkpoint is put where nothing acceptable is; an acceptable one stays."""

from collections.abc import Callable
from uuid import uuid4

import pyarrow as pa
import pytest

from deltamirror.config import StorageSettings
from deltamirror.errors import LeaseLost, Transient
from deltamirror.publish.checkpoint import placement
from deltamirror.publish.checkpoint.placement import Accept, Placed, place
from deltamirror.steps import Step
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from tests.support.logs.commit_units import held, watched

pytestmark = pytest.mark.requirement("R15")

KEY = "_delta_log/x.parquet"
OURS = bytes(range(256))
DATA = pa.py_buffer(OURS)


@pytest.fixture
def store() -> Store:
    return store_at(f"memory://{uuid4()}/t", StorageSettings())


def never(found: bytes) -> bool:
    return False


def placed(store: Store, *, accept: Accept = never, guard: Callable[[], None] = held) -> Placed:
    return place(store, KEY, DATA, step=Step.PUT_CHECKPOINT, guard=guard, accept=accept)


def lost() -> None:
    raise LeaseLost("another process has it")


@pytest.mark.parametrize("piece_bytes", [1_000, 256, 255, 128], ids=str)
@pytest.mark.parametrize(
    "before",
    [None, b"other", bytes(256), OURS[:-1] + b"x", b"x" + OURS[1:], OURS + b"x"],
    ids=["nothing", "shorter", "zeros", "another end", "another beginning", "longer"],
)
def test_what_lies_there_in_the_end_are_our_bytes(
    store: Store, before: bytes | None, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "PIECE_BYTES", piece_bytes)
    if before is not None:
        store.put(KEY, before)
    found = placed(store)
    assert (bytes(found.data), found.is_as_given, found.meta) == (OURS, True, store.head(KEY))
    stored = store.read(KEY)
    assert stored is not None
    assert stored.data == OURS


@pytest.mark.parametrize("piece_bytes", [1_000, 100])
def test_equal_bytes_are_neither_put_again_nor_judged(
    store: Store, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "PIECE_BYTES", piece_bytes)
    store.put(KEY, OURS)
    watching, calls = watched(store)
    assert placed(watching, guard=lost).is_as_given
    assert (list(calls.of("create")), list(calls.of("replace"))) == ([], [])
    assert bool(calls.of("read")) is (piece_bytes == 1_000)


def test_an_object_that_is_acceptable_stays(store: Store) -> None:
    store.put(KEY, b"theirs")
    found = placed(store, accept=lambda data: data == b"theirs", guard=lost)
    assert (bytes(found.data), found.is_as_given, found.meta) == (b"theirs", False, store.head(KEY))


@pytest.mark.parametrize("before", [None, b"theirs"])
def test_nothing_is_put_without_the_lease(store: Store, before: bytes | None) -> None:
    if before is not None:
        store.put(KEY, before)
    with pytest.raises(LeaseLost):
        placed(store, guard=lost)
    stored = store.read(KEY)
    assert (None if stored is None else stored.data) == before


def test_an_object_that_changes_all_the_time_is_given_up_after_five_turns(store: Store) -> None:
    store.put(KEY, b"0")
    turns: list[bytes] = []

    def change(found: bytes) -> bool:
        turns.append(found)
        store.put(KEY, found + b"0")
        return False

    with pytest.raises(Transient, match=f"^{KEY} in memory://.* keeps changing") as caught:
        placed(store, accept=change)
    assert turns == [b"0" * count for count in range(1, 6)]
    assert caught.value.hint == "another writer writes this checkpoint, too"
