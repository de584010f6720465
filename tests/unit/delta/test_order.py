"""The iteration order of Scala's immutable collections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.delta.order import champ_order, java_hash, ordered

pytestmark = pytest.mark.requirement("R5")

KEYS = st.lists(st.text(alphabet="ABab.é😀", max_size=4), max_size=80)


@given(st.lists(st.text(), max_size=4, unique=True))
def test_up_to_four_keys_keep_the_order_of_insertion(keys: list[str]) -> None:
    assert champ_order(keys) == keys


@given(KEYS)
def test_order_is_a_permutation_of_the_distinct_keys(keys: list[str]) -> None:
    found = champ_order(keys)
    assert len(found) == len(set(found))
    assert set(found) == set(keys)


@given(st.data())
def test_five_keys_or_more_forget_the_order_of_insertion(data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.integers().map(str), min_size=5, max_size=60, unique=True))
    assert champ_order(keys) == champ_order(data.draw(st.permutations(keys)))


@pytest.mark.parametrize(
    "written",
    [
        ["partitionBy", "clusterBy", "description", "isManaged", "properties"],
        ["clusterBy", "predicate", "auto", "isFull", "zOrderBy"],
    ],
)
def test_order_is_that_of_the_reference_writer(written: list[str]) -> None:
    assert champ_order(sorted(written)) == written


def test_keys_of_equal_hash_keep_the_order_of_insertion() -> None:
    colliding = ["BBBB", "AaAa", "BBAa", "AaBB"]
    found = champ_order(["x", *colliding])
    assert [key for key in found if key != "x"] == colliding


def test_a_mapping_keeps_its_values() -> None:
    mapping = {key: index for index, key in enumerate("edcba")}
    found = ordered(mapping)
    assert list(found) == champ_order("edcba") == ["e", "a", "b", "c", "d"]
    assert found == mapping


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("", 0), ("ab", 3105), ("中", 20013), ("中b", 620501), ("😀", 1772899), ("\ud800", 55296), ("zzzzzzz", 215481018)],
)
def test_a_hash_is_that_of_the_utf_16_units(text: str, wanted: int) -> None:
    assert java_hash(text) == wanted
