"""``_last_checkpoint`` over every kind of store: it goes forward only, whoever else writes it."""

import json

import pytest

from deltamirror.delta.lastcheckpoint import LastCheckpoint, decode, encode
from deltamirror.deltalog.pointer import POINTER_KEY, move_pointer
from deltamirror.errors import LeaseLost, Transient
from deltamirror.storage.store import Store
from tests.support.stores.recording import RecordingStore

pytestmark = pytest.mark.requirement("R15")


def pointer(version: int, *, size: int = 3) -> LastCheckpoint:
    return LastCheckpoint(version=version, size=size, size_in_bytes=100, num_of_add_files=1)


def always() -> None:
    """A guard that lets everything pass."""


def stored(store: Store) -> bytes:
    found = store.read(POINTER_KEY)
    assert found is not None
    return found.data


def test_the_first_pointer_is_created(any_store: Store) -> None:
    move_pointer(any_store, pointer(10), guard=always)
    assert stored(any_store) == encode(pointer(10))
    assert POINTER_KEY == "_delta_log/_last_checkpoint"


def test_a_pointer_moves_forward(any_store: Store) -> None:
    any_store.create(POINTER_KEY, encode(pointer(10)))
    move_pointer(any_store, pointer(20), guard=always)
    assert stored(any_store) == encode(pointer(20))


def test_a_pointer_never_goes_back(any_store: Store) -> None:
    any_store.create(POINTER_KEY, encode(pointer(20)))
    recorded = RecordingStore(any_store)
    move_pointer(recorded, pointer(10), guard=always)
    assert stored(any_store) == encode(pointer(20))
    assert recorded.puts == []


def test_a_pointer_of_another_writer_to_a_later_version_stays(any_store: Store) -> None:
    theirs = b'{"version":21,"size":7}\n'
    any_store.create(POINTER_KEY, theirs)
    move_pointer(any_store, pointer(20), guard=always)
    assert stored(any_store) == theirs


def test_an_equal_pointer_is_not_written_again(any_store: Store) -> None:
    any_store.create(POINTER_KEY, encode(pointer(10)))
    recorded = RecordingStore(any_store)
    move_pointer(recorded, pointer(10), guard=always)
    assert recorded.puts == []


def test_another_pointer_to_the_same_version_becomes_ours(any_store: Store) -> None:
    any_store.create(POINTER_KEY, encode(pointer(10, size=99)))
    move_pointer(any_store, pointer(10), guard=always)
    assert stored(any_store) == encode(pointer(10))


@pytest.mark.parametrize(
    "damaged",
    [b"{", b"\xff\xfe", b"[]", b'{"version":99,"size":1,"checksum":"00000000000000000000000000000000"}'],
    ids=["half", "no text", "no object", "wrong checksum"],
)
def test_a_damaged_pointer_is_replaced_whatever_it_says(any_store: Store, damaged: bytes) -> None:
    any_store.create(POINTER_KEY, damaged)
    move_pointer(any_store, pointer(10), guard=always)
    assert stored(any_store) == encode(pointer(10))


def test_a_later_pointer_that_comes_in_between_wins(any_store: Store) -> None:
    any_store.create(POINTER_KEY, encode(pointer(10)))
    others = iter([30])

    def other_writer(key: str) -> None:
        for version in others:
            any_store.put(key, encode(pointer(version)))

    move_pointer(RecordingStore(any_store, before_put=other_writer), pointer(20), guard=always)
    assert decode(stored(any_store)).pointer == pointer(30)


def test_an_earlier_pointer_that_comes_in_between_is_passed(any_store: Store) -> None:
    others = iter([5])

    def other_writer(key: str) -> None:
        for version in others:
            any_store.put(key, encode(pointer(version)))

    recorded = RecordingStore(any_store, before_put=other_writer)
    move_pointer(recorded, pointer(20), guard=always)
    assert decode(stored(any_store)).pointer == pointer(20)
    assert len(recorded.puts) == 2


def test_whoever_is_always_overtaken_gives_up_after_some_turns(any_store: Store) -> None:
    sizes = iter(range(1_000))

    def other_writer(key: str) -> None:
        any_store.put(key, encode(pointer(1, size=next(sizes))))

    recorded = RecordingStore(any_store, before_put=other_writer)
    with pytest.raises(Transient, match="keeps changing"):
        move_pointer(recorded, pointer(20), guard=always)
    assert len(recorded.puts) < 10


def test_whoever_lost_the_lease_does_not_move_it(any_store: Store) -> None:
    def lost() -> None:
        raise LeaseLost("injected")

    with pytest.raises(LeaseLost):
        move_pointer(any_store, pointer(10), guard=lost)
    assert any_store.read(POINTER_KEY) is None


def test_a_pointer_is_one_line_of_json_with_a_checksum(any_store: Store) -> None:
    move_pointer(any_store, pointer(10), guard=always)
    said = json.loads(stored(any_store))
    assert list(said) == ["version", "size", "sizeInBytes", "numOfAddFiles", "checksum"]
    assert stored(any_store).endswith(b"}\n")
