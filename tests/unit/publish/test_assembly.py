"""The bytes of a commit from its chunks: those that were committed, or an error that says what is damaged."""

import dataclasses
import hashlib
import re
import tracemalloc
from collections.abc import Iterator, Sequence
from threading import Event

import pytest

from deltamirror.delta.chunks import Chunk, commit_digest, compressed_chunk, plain_chunk
from deltamirror.errors import Internal, Unavailable
from deltamirror.publish import assembly
from deltamirror.publish.assembly import commit_data
from deltamirror.storage.store import Data
from deltamirror.work import CommitWork, Verification
from tests.support.logs.commit_units import carried, work_of
from tests.support.reference_logs.files import commit_files
from tests.support.reference_logs.golden import reference

LINE = b'{"add":{"path":"%06d","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}\n'
MANY = b'{"commitInfo":{}}\n' + b"".join(LINE % number for number in range(1_000))


def assembled(work: CommitWork, verify: Verification = Verification.BASIC) -> Data:
    return commit_data(work, carried, table="sales.t", verify=verify)


def work_with(*chunks: Chunk) -> CommitWork:
    """A commit that consists of these chunks, whatever is in them."""
    return dataclasses.replace(
        work_of(7, b"x"),
        chunks=chunks,
        num_chunks=len(chunks),
        num_bytes=sum(chunk.raw_bytes for chunk in chunks),
        digest=commit_digest(chunk.digest for chunk in chunks),
    )


def damage(work: CommitWork, verify: Verification = Verification.BASIC) -> str:
    with pytest.raises(Internal, match=r"^version 7 of table 'sales.t' is damaged in the database: ") as caught:
        assembled(work, verify)
    assert caught.value.hint == "nothing of it was published; restore the rows of `dl_commit_chunks` from a backup"
    return caught.value.message.partition("database: ")[2]


@pytest.mark.requirement("R31")
@pytest.mark.parametrize("verify", Verification)
@pytest.mark.parametrize("lines", [None, 1, 3, 100, 1_000, 5_000])
def test_many_chunks_give_the_bytes_of_one(lines: int | None, verify: Verification) -> None:
    assert assembled(work_of(7, MANY, lines=lines), verify) == MANY


def test_as_many_chunks_are_fetched_as_may_be_under_way_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk that is being decoded sees the next one asked for, and the one after that not yet."""
    work, decode = work_of(7, MANY, lines=250), Chunk.decoded
    chunks = carried(work)
    number_of = {chunk.digest: number for number, chunk in enumerate(chunks)}
    asked = [Event() for _ in range(len(chunks) + 2)]

    def decoded(chunk: Chunk, *, check: bool = True) -> bytes:
        number = number_of[chunk.digest]
        assert asked[number + 1].wait(60)
        assert not asked[number + 2].wait(0.05)
        return decode(chunk, check=check)

    def fetch(work: CommitWork) -> Iterator[Chunk]:
        for number, chunk in enumerate(carried(work)):
            asked[number].set()
            yield chunk
        asked[len(chunks)].set()

    monkeypatch.setattr(assembly, "_UNDER_WAY", 2)
    monkeypatch.setattr(Chunk, "decoded", decoded)
    assert commit_data(work, fetch, table="t") == MANY


@pytest.mark.parametrize("lines", [None, 100])
def test_a_commit_that_is_not_complete_is_damaged(lines: int | None) -> None:
    work = work_of(7, MANY, lines=lines)
    chunks = work.chunks or ()
    for wrong in ((), chunks[:-1], (*chunks, chunks[-1]), (*chunks, plain_chunk(b""))):
        for verify in (Verification.OFF, Verification.BASIC):
            assert re.search("chunks of|more than", damage(dataclasses.replace(work, chunks=wrong), verify))


def test_a_chunk_that_is_too_long_for_the_commit_is_damaged() -> None:
    work = work_of(7, MANY, lines=100)
    *others, last = work.chunks or ()
    longer = compressed_chunk(last.decoded() * 2)
    assert damage(dataclasses.replace(work, chunks=(*others, longer))) == f"more than {len(MANY)} bytes"


@pytest.mark.parametrize("verify", [Verification.OFF, Verification.BASIC])
@pytest.mark.parametrize("told", [len(MANY) - 1, len(MANY) + 1])
def test_a_chunk_of_another_length_than_is_told_is_damaged(told: int, verify: Verification) -> None:
    wrong = dataclasses.replace(plain_chunk(MANY), raw_bytes=told)
    expected = f"a chunk has {len(MANY)} bytes, not {told}"
    assert damage(work_with(wrong), verify) == expected
    assert damage(work_with(plain_chunk(MANY), wrong), verify) == expected


@pytest.mark.parametrize("lines", [None, 100])
def test_a_commit_of_another_digest_is_damaged_unless_nobody_asks(lines: int | None) -> None:
    work = dataclasses.replace(work_of(7, MANY, lines=lines), digest=hashlib.sha256(b"").digest())
    assert "its digest is" in damage(work)
    assert assembled(work, Verification.OFF) == MANY


def test_chunks_in_another_order_are_damaged() -> None:
    work = work_of(7, MANY, lines=100)
    first, second, third, *others = work.chunks or ()
    assert "its digest is" in damage(dataclasses.replace(work, chunks=(first, third, second, *others)))


def test_a_chunk_that_changed_is_damaged() -> None:
    for lines in (None, 100):
        work = work_of(7, MANY, lines=lines)
        first, *others = work.chunks or ()
        changed = dataclasses.replace(first, data=first.data.replace(b"I", b"i"))
        work = dataclasses.replace(work, chunks=(changed, *others))
        assert "digest" in damage(work)
        assert assembled(work, Verification.OFF) == MANY.replace(b"I", b"i")


@pytest.mark.parametrize("verify", [Verification.OFF, Verification.BASIC])
def test_a_chunk_that_cannot_be_decompressed_is_damaged(verify: Verification) -> None:
    work = work_of(7, MANY, lines=100)
    *others, last = work.chunks or ()
    torn = dataclasses.replace(last, data=last.data[: len(last.data) // 2])
    assert damage(dataclasses.replace(work, chunks=(*others, torn)), verify)


@pytest.mark.requirement("R5")
@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(b"[" + LINE[:-1] % 1 + b"]\n", id="an array of actions"),
        pytest.param(LINE[:-1] % 1 + LINE % 2, id="two actions on a line"),
        pytest.param(b'{"add":{},"remove":{}}\n', id="two actions in an object"),
        pytest.param(b"{}\n", id="no action in an object"),
        pytest.param(b'{"add":\n{}}\n', id="an action on two lines"),
        pytest.param(b'{"add":{"path":"a}\n', id="half a line"),
        pytest.param(b'{"add":{"path":"\xff"}}\n', id="not UTF-8"),
        pytest.param(b'"add"\n', id="a text"),
        pytest.param(b"\n\n", id="blank lines only"),
        pytest.param(b"[" * 100_000, id="nested too deeply"),
    ],
)
def test_what_has_not_the_shape_of_a_commit_is_not_published(wrong: bytes) -> None:
    assert damage(work_with(plain_chunk(wrong)))
    assert assembled(work_with(plain_chunk(wrong)), Verification.OFF) == wrong
    if wrong.strip():
        assert damage(work_with(plain_chunk(MANY), compressed_chunk(wrong), compressed_chunk(MANY)))


def test_a_chunk_of_half_lines_is_damaged() -> None:
    halves = plain_chunk(MANY[:-1]), compressed_chunk(MANY)
    assert "does not end with a line" in damage(work_with(*halves))


@pytest.mark.requirement("R5")
def test_chunks_of_blank_lines_only_are_damaged() -> None:
    work = work_with(plain_chunk(b"\n"), *[compressed_chunk(b"\n\n")] * 10)
    assert damage(work) == "it has no actions"
    assert assembled(work, Verification.OFF) == b"\n" * 21


@pytest.mark.parametrize(
    "odd",
    [MANY.replace(b"\n", b"\r\n"), MANY.replace(b"\n", b"\n \n\n"), MANY.removesuffix(b"\n"), b"\n" + MANY],
    ids=["carriage returns", "blank lines", "no newline at the end", "a blank line first"],
)
def test_how_other_writers_end_their_lines_is_carried(odd: bytes) -> None:
    assert assembled(work_of(7, odd)) == odd
    assert assembled(work_of(7, odd, lines=7)) == odd


@pytest.mark.parametrize("lines", [None, 100])
def test_what_goes_wrong_while_fetching_is_told_as_it_is(lines: int | None) -> None:
    def fetch(work: CommitWork) -> Sequence[Chunk]:
        raise Unavailable("the database is gone")

    with pytest.raises(Unavailable):
        commit_data(work_of(7, MANY, lines=lines), fetch, table="t")


@pytest.mark.requirement("R31")
def test_the_memory_is_that_of_the_commit_and_a_few_chunks() -> None:
    work = work_of(7, MANY[:18] + MANY[18:] * 400, lines=5_000)
    assert work.num_chunks == 81
    tracemalloc.start()
    try:
        data = assembled(work)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(data) < peak < 1.5 * len(data)


@pytest.mark.requirement("R5")
@pytest.mark.reference
def test_every_commit_of_other_writers_has_the_shape_of_one() -> None:
    logs = reference()
    commits = [(logs.name_of(log), data) for log in logs.logs for data in commit_files(log)]
    assert len(commits) >= logs.floors.commits
    for name, data in commits:
        if data.strip():
            assert assembled(work_of(7, data)) == data, name
            assert assembled(work_of(7, data, lines=2)) == data, name
