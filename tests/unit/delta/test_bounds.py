"""What is beyond all that Delta writers make is refused before it fills the memory."""

from itertools import repeat

import pyarrow as pa
import pytest

from deltamirror import Catalog
from deltamirror.delta import chunks
from deltamirror.delta.bounds import DEEPEST_JSON, LARGEST_CHUNK, LONGEST_LINE, MOST_BLANKS, nests_too_deeply
from deltamirror.delta.chunks import Chunk, compressed_chunk
from deltamirror.delta.lines import read_ndjson
from deltamirror.errors import CapacityExceeded, Internal, InvalidLine
from tests.support.lakes.lake import create

pytestmark = pytest.mark.requirement("R5")

BLANKS = b" " * 65_535 + b"\n"


def test_a_stream_of_blank_lines_comes_to_an_end() -> None:
    with pytest.raises(InvalidLine, match=f"more than {MOST_BLANKS:,} bytes of blank lines") as caught:
        list(read_ndjson(repeat(BLANKS), source="pipe"))
    assert (caught.value.source, caught.value.line) == ("pipe", MOST_BLANKS // len(BLANKS) + 1)


def test_a_line_has_an_end() -> None:
    with pytest.raises(InvalidLine, match=f"a line of more than {LONGEST_LINE:,} bytes"):
        list(read_ndjson([b"\n", b"x" * (LONGEST_LINE + 1)], source="pipe"))


@pytest.mark.parametrize("lines", [b"\n" * (MOST_BLANKS + 1), repeat(BLANKS)], ids=["text", "stream"])
def test_blank_lines_of_another_writer_come_to_an_end(lake: Catalog, lines: bytes) -> None:
    create(lake)
    with pytest.raises(InvalidLine, match="of blank lines"), lake.transaction() as tx:
        tx.stage_lines("t", lines, at_version=1)


def test_levels_are_counted_outside_of_texts() -> None:
    deepest = "[" * DEEPEST_JSON + "]" * DEEPEST_JSON
    assert not nests_too_deeply(deepest)
    assert nests_too_deeply(f"[{deepest}]")
    assert not nests_too_deeply(f'{{"[[{{\\"{"[" * 1000}":{deepest[1:-1]}}}')
    assert not nests_too_deeply("[" + "[]," * 1000 + "[]]")


@pytest.mark.parametrize("raw_bytes", [LARGEST_CHUNK + 1, 2**62])
def test_a_chunk_that_states_more_than_any_has_is_not_unpacked(raw_bytes: int) -> None:
    with pytest.raises(Internal, match="larger than any that is written"):
        Chunk("zstd", raw_bytes, b"", b"").decoded()


def test_a_chunk_that_unpacks_to_more_than_it_states_is_damaged() -> None:
    packed = pa.Codec("zstd").compress(bytes(1_000_000), asbytes=True)
    with pytest.raises(Internal, match="cannot be decompressed to 1000 bytes"):
        Chunk("zstd", 1000, b"", packed).decoded()


def test_a_chunk_that_could_not_be_read_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "LARGEST_CHUNK", 10)
    with pytest.raises(CapacityExceeded, match="the limit is 10"):
        compressed_chunk(b"x" * 11)
