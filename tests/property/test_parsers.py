"""Whatever bytes a parser is given, it answers, or raises an error of ours: random bytes, and damaged good ones.

The same parsers are fuzzed by ``make fuzz``.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzzing.targets import TARGETS, answer

pytestmark = pytest.mark.requirement("R86")

FRAGMENTS = (
    *(b"null", b"true", b"{", b"}", b'"', b"[", b"]", b":", b",", b"\n", b"\r", b"\\", b"\\u0000", b"\\ud800"),
    *(b"\xff", b"\xef\xbb\xbf", b"\x00" * 8, b"\x15\x00", b"PAR1", b"=", b"[["),
    *(b"0", b"-0", b"1.5", b"1e999", b"NaN", b"99999999999999999999", b"-9223372036854775809", b"0" * 20),
    *(b'"add"', b'"remove"', b'"metaData"', b'"path"', b'"x":{}'),
)
EDITS = st.tuples(
    st.floats(0, 1), st.integers(0, 12), st.one_of(st.just(b""), st.sampled_from(FRAGMENTS), st.binary(max_size=6))
)


def damaged(seed: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    """A good input with some bytes at some places replaced by others."""
    for place, length, fragment in edits:
        at = int(place * len(seed))
        seed = seed[:at] + fragment + seed[at + length :]
    return seed


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.data())
@settings(max_examples=60)
def test_a_parser_answers_whatever_it_is_given(name: str, data: st.DataObject) -> None:
    target = TARGETS[name]
    seeds = st.builds(damaged, st.sampled_from(target.seeds()), st.lists(EDITS, min_size=1, max_size=4))
    answer(target, data.draw(st.one_of(st.binary(max_size=64), seeds)))


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_takes_what_it_is_fuzzed_from(name: str) -> None:
    for seed in TARGETS[name].seeds():
        TARGETS[name].parse(seed)
