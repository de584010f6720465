"""Changes of schemas are lawful as a model of reading files says."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.delta.schema import (
    ArrayType,
    DataType,
    Field,
    MapType,
    Primitive,
    StructType,
    schema_string,
)
from tests.support.lakes.schema_changes import ID, breaches

pytestmark = pytest.mark.requirement("R5")


# A schema as a reader of a file sees it: what is to be found at each path, and whether it may be missing.
STEPS = ("[]", "{key}", "{value}")
Seen = dict[tuple[str, ...], tuple[str, bool]]
NAMES = st.sampled_from(["a", "b", "c", "A"])
LEAVES = st.sampled_from([Primitive("long"), Primitive("string")])


def structs(kinds: st.SearchStrategy[DataType]) -> st.SearchStrategy[StructType]:
    fields = st.builds(Field, NAMES, kinds, st.sampled_from([True, True, True, False]))
    return st.lists(fields, min_size=1, max_size=3, unique_by=lambda each: each.name.lower()).map(
        lambda found: StructType(tuple(found))
    )


TYPES = st.recursive(
    LEAVES,
    lambda kinds: st.one_of(
        structs(kinds),
        st.builds(ArrayType, kinds, st.sampled_from([True, True, False])),
        st.builds(MapType, LEAVES, kinds, st.sampled_from([True, True, False])),
    ),
    max_leaves=4,
)
SCHEMAS = structs(TYPES)


def seen(kind: DataType, path: tuple[str, ...] = (), *, nullable: bool = True) -> Iterator[tuple[tuple[str, ...], Any]]:
    word = kind.name if isinstance(kind, Primitive) else type(kind).__name__
    yield path, (word, nullable)
    match kind:
        case StructType():
            for each in kind.fields:
                yield from seen(each.type, (*path, each.name), nullable=each.nullable)
        case ArrayType():
            yield from seen(kind.element, (*path, "[]"), nullable=kind.contains_null)
        case MapType():
            yield from seen(kind.key, (*path, "{key}"))
            yield from seen(kind.value, (*path, "{value}"), nullable=kind.value_contains_null)


def reads_the_same(old: Seen, new: Seen) -> bool:
    """Whether rows written under the one schema are rows of the other, and the same ones."""
    for path, (word, nullable) in old.items():
        if path not in new or new[path][0] != word or (nullable and not new[path][1]):
            return False
    # What is not in the file is null; inside of an array or a map that is null there is nothing.
    added = [path for path in new if path not in old]
    tops = [path for path in added if path[:-1] in old]
    if any({*STEPS[1:]} & {*top} for top in tops):
        return False
    return all(
        new[path][1] for path in added for top in tops if path[: len(top)] == top and not {*STEPS} & {*path[len(top) :]}
    )


@given(SCHEMAS, SCHEMAS)
def test_schemas_change_as_a_model_of_reading_files_says(old: StructType, new: StructType) -> None:
    before, after = (
        msgspec.structs.replace(ID, schema_string=schema_string(each), partition_columns=[]) for each in (old, new)
    )
    assert (breaches(before, after) == []) == reads_the_same(dict(seen(old)), dict(seen(new)))


@given(SCHEMAS, st.data())
def test_schemas_that_grow_by_nullable_columns_may_change(old: StructType, data: st.DataObject) -> None:
    taken = {each.name.lower() for each in old.fields}
    added = [Field(name, data.draw(LEAVES)) for name in ("d", "e") if name not in taken]
    fields = data.draw(st.permutations([*old.fields, *added]))
    before = msgspec.structs.replace(ID, schema_string=schema_string(old), partition_columns=[])
    after = msgspec.structs.replace(before, schema_string=schema_string(StructType(tuple(fields))))
    assert breaches(before, after) == []
    assert breaches(after, before) != []
