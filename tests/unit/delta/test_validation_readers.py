"""Actions that readers cannot decode are refused, though the protocol has no word against them."""

import json

import msgspec
import pytest

from deltamirror.delta.properties import canonical_properties
from deltamirror.delta.validation import check_actions
from deltamirror.errors import InvalidAction
from tests.support.lakes.validation import (
    ADD,
    EXTENDED,
    INLINE,
    changed,
    metadata_of,
    vector,
)

pytestmark = pytest.mark.requirement("R5")


@pytest.mark.requirement("R119")
@pytest.mark.parametrize(
    ("kind", "place", "size"),
    [
        ("i", INLINE[:-1], 36),
        ("i", "ä" * 45, 36),
        ("i", "#" * 45, 36),
        ("i", INLINE, 1),
        ("i", INLINE, 37),
        ("i", "0" * 45, 36),
        ("u", '"' * 20, 34),
        ("u", "../" + "0" * 20, 34),
        ("u", "a b" + "0" * 20, 34),
    ],
)
def test_a_deletion_vector_that_no_reader_decodes_is_refused(kind: str, place: str, size: int) -> None:
    broken = vector(storage_type=kind, path_or_inline_dv=place, size_in_bytes=size, offset=None)
    with pytest.raises(InvalidAction) as refused:
        check_actions([changed(ADD, deletion_vector=broken)], protocol=EXTENDED, metadata=metadata_of())
    assert refused.value.rule == "add.deletion-vector.path"


@pytest.mark.requirement("R119")
def test_a_schema_whose_columns_lack_what_the_kernel_asks_for_is_refused() -> None:
    schema = json.loads(str(metadata_of().schema_string))
    nested = next(each for each in schema["fields"] if each["name"] == "st")["type"]["fields"][0]
    del nested["metadata"]
    bare = msgspec.structs.replace(metadata_of(), schema_string=json.dumps(schema))
    with pytest.raises(InvalidAction, match="'metadata'"):
        check_actions([bare], protocol=EXTENDED, metadata=bare)
    check_actions([bare], protocol=EXTENDED, metadata=bare, verbatim=True)


@pytest.mark.requirement("R119")
def test_a_decimal_without_its_digits_is_refused() -> None:
    text = str(metadata_of().schema_string).replace('"decimal(5,2)"', '"decimal"')
    bare = msgspec.structs.replace(metadata_of(), schema_string=text)
    with pytest.raises(InvalidAction, match="decimal has its digits"):
        check_actions([bare], protocol=EXTENDED, metadata=bare)
    check_actions([bare], protocol=EXTENDED, metadata=bare, verbatim=True)


@pytest.mark.requirement("R119")
def test_a_schema_that_only_lenient_readers_take_for_json_is_refused() -> None:
    text = str(metadata_of().schema_string).replace('"metadata":{}', '"metadata":{"a":NaN}', 1)
    odd = msgspec.structs.replace(metadata_of(), schema_string=text)
    with pytest.raises(InvalidAction, match="not JSON"):
        check_actions([odd], protocol=EXTENDED, metadata=odd)


@pytest.mark.requirement("R119")
@pytest.mark.parametrize(("key", "word"), [("delta.columnMapping.mode", "NONE"), ("delta.checkpointPolicy", "Classic")])
def test_words_that_a_reader_knows_in_lower_case_are_written_so(key: str, word: str) -> None:
    assert canonical_properties({key: word}) == {key: word.lower()}
    loud = metadata_of(configuration={key: word})
    with pytest.raises(InvalidAction) as refused:
        check_actions([loud], protocol=EXTENDED, metadata=loud)
    assert refused.value.rule == "metaData.configuration.value"
