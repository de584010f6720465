"""Maps of texts as Arrow has them: made of structs, and asked for the values of a key."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.deltalog.checkpoint.maps import TEXT_MAP, map_of_struct, value_of

TEXTS = st.none() | st.sampled_from(["", "a", "é"])
KEYS = st.integers(0, 3).map(lambda width: [f"k{number}" for number in range(width)])


@st.composite
def structs(draw: st.DrawFn) -> pa.StructArray:
    """Structs of texts, some of them null, out of the middle of others."""
    keys = draw(KEYS)
    rows = draw(st.lists(st.none() | st.fixed_dictionaries(dict.fromkeys(keys, TEXTS)), max_size=6))
    skipped = draw(st.integers(0, len(rows)))
    return pa.array(rows, pa.struct([(key, pa.string()) for key in keys])).slice(skipped)


@pytest.mark.parametrize("nulls_are_values", [True, False])
@given(fields=structs())
def test_a_struct_becomes_a_map_of_its_fields(fields: pa.StructArray, nulls_are_values: bool) -> None:
    found = map_of_struct(fields, nulls_are_values=nulls_are_values)
    found.validate(full=True)
    assert found.type == TEXT_MAP
    assert found.to_pylist() == [
        row if row is None else [(key, text) for key, text in row.items() if nulls_are_values or text is not None]
        for row in fields.to_pylist()
    ]


ENTRIES = st.lists(st.tuples(st.sampled_from("abc"), TEXTS), max_size=3)


@given(
    rows=st.lists(st.none() | ENTRIES, max_size=6),
    skipped=st.integers(0, 6),
    left=st.integers(0, 6),
)
def test_the_value_of_a_key_is_the_one_of_its_first_entry(
    rows: list[list[tuple[str, str | None]] | None], skipped: int, left: int
) -> None:
    maps = pa.array(rows, TEXT_MAP).slice(skipped, left)
    for key in "abd":
        assert value_of(maps, key).equals(pc.map_lookup(maps, key, "first"))


@pytest.mark.parametrize("keys", ["a", "ab", "ba"])
def test_where_all_maps_have_a_key_their_values_are_taken_as_they_are(
    keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(pc, "map_lookup")  # it looks at one entry after the other
    maps = pa.array([[(key, f"{key}{number}") for key in keys] for number in range(5)], TEXT_MAP).slice(1, 3)
    assert value_of(maps, "a").to_pylist() == ["a1", "a2", "a3"]
