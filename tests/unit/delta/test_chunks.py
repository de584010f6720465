"""Chunks: the stored form of a commit's lines."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

import pytest

from deltamirror.delta import chunks
from deltamirror.delta.chunks import Chunk, commit_digest, compressed_chunk, plain_chunk
from deltamirror.errors import CapacityExceeded, Internal

pytestmark = pytest.mark.requirement("R3")

LINES = b'{"txn":{"appId":"a","version":1}}\n' * 20


@pytest.mark.parametrize(("chunk_of", "codec"), [(plain_chunk, "plain"), (compressed_chunk, "zstd")])
def test_a_chunk_gives_back_its_lines(chunk_of: Callable[[bytes], Chunk], codec: str) -> None:
    chunk = chunk_of(LINES)
    assert (chunk.codec, chunk.raw_bytes, chunk.digest) == (codec, len(LINES), sha256(LINES).digest())
    assert chunk.decoded() == chunk.decoded(check=False) == LINES
    assert (chunk.data == LINES) is (codec == "plain")


@pytest.mark.parametrize("chunk_of", [plain_chunk, compressed_chunk])
def test_a_chunk_of_another_digest_is_damaged_unless_it_is_not_checked(chunk_of: Callable[[bytes], Chunk]) -> None:
    damaged = replace(chunk_of(LINES), digest=sha256(b"").digest())
    with pytest.raises(Internal, match="does not have the digest"):
        damaged.decoded()
    assert damaged.decoded(check=False) == LINES


def test_a_chunk_of_the_largest_size_is_stored_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "LARGEST_CHUNK", len(LINES))
    assert compressed_chunk(LINES).decoded() == LINES
    with pytest.raises(CapacityExceeded) as caught:
        compressed_chunk(LINES + b"\n")
    assert caught.value.hint.startswith("lower catalog.chunk_lines")
    with pytest.raises(Internal, match=f"of {len(LINES) + 1} bytes is larger than any"):
        replace(compressed_chunk(LINES), raw_bytes=len(LINES) + 1).decoded()


def test_the_digest_of_a_commit_is_that_of_its_chunk_or_of_their_digests() -> None:
    first, second = sha256(b"1").digest(), sha256(b"2").digest()
    assert commit_digest([first]) == first
    assert commit_digest(iter([first, second])) == sha256(first + second).digest()
