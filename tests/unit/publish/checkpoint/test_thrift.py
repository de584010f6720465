"""The bytes of Thrift's compact protocol, as its specification has them."""

import pytest

from deltamirror.publish.checkpoint.thrift import Struct, decoded, encoded

pytestmark = pytest.mark.requirement("R9")


@pytest.mark.parametrize(
    ("fields", "data"),
    [
        ({}, "00"),
        ({1: (1, True), 2: (2, False)}, "11 12 00"),
        ({1: (5, 0)}, "15 00 00"),
        ({1: (4, 1), 2: (5, -1), 3: (6, 64)}, "14 02 15 01 16 8001 00"),
        ({1: (6, 63), 2: (6, -64), 3: (6, -65)}, "16 7e 16 7f 16 8101 00"),
        ({1: (6, 2**63 - 1)}, "16 feffffffffffffffff01 00"),
        ({1: (6, -(2**63))}, "16 ffffffffffffffffff01 00"),
        ({1: (7, bytes(range(8)))}, "17 0001020304050607 00"),
        ({1: (8, b"ab")}, "18 02 6162 00"),
        ({1: (8, b"a" * 127)}, f"18 7f {'61' * 127} 00"),
        ({1: (8, b"a" * 128)}, f"18 8001 {'61' * 128} 00"),
        ({1: (12, {1: (1, True)})}, "1c 11 00 00"),
        ({1: (9, (5, [1, -1]))}, "19 25 02 01 00"),
        ({1: (9, (12, [{}, {}]))}, "19 2c 00 00 00"),
        ({1: (9, (1, [1, 0])), 2: (9, (2, [2])), 3: (9, (3, [255]))}, "19 21 01 00 19 12 02 19 13 ff 00"),
        ({1: (9, (7, [b"12345678"]))}, "19 17 3132333435363738 00"),
        ({1: (9, (8, [b"a"] * 14))}, f"19 e8 {'0161' * 14} 00"),
        ({1: (9, (8, [b"a"] * 15))}, f"19 f8 0f {'0161' * 15} 00"),
        ({1: (9, (3, [7] * 200))}, f"19 f3 c801 {'07' * 200} 00"),
        ({15: (5, 1), 30: (5, 1), 46: (5, 1)}, "f5 02 f5 02 05 5c 02 00"),
        ({16: (1, True), 17: (2, False)}, "01 20 12 00"),
        ({9: (5, 1), 3: (5, 1)}, "95 02 05 06 02 00"),
        ({0: (5, 1)}, "05 00 02 00"),
    ],
)
def test_a_struct_has_the_bytes_of_the_specification(fields: Struct, data: str) -> None:
    assert encoded(fields).hex() == bytes.fromhex(data).hex()
    assert list(decoded(bytes.fromhex(data)).items()) == list(fields.items())


def test_bytes_after_a_struct_are_not_read() -> None:
    assert decoded(b"\x15\x02\x00\xff\xff") == {1: (5, 1)}


@pytest.mark.parametrize("data", ["", "15", "15 80", "18 02 61", "17 00010203040506", "19", "19 25 02", "1c 11 00"])
def test_a_struct_that_breaks_off_is_an_error_of_value(data: str) -> None:
    with pytest.raises(ValueError, match=r"^a Thrift struct that breaks off$"):
        decoded(bytes.fromhex(data))


@pytest.mark.parametrize("kind", [10, 11, 13])
def test_types_that_parquet_does_not_use_are_refused(kind: int) -> None:
    with pytest.raises(ValueError, match=f"^a Thrift value of type {kind}$"):
        decoded(bytes([0x10 | kind, 0, 0]))


LIST_OF_TWO: Struct = {1: (5, 7), 4: (9, (12, [{1: (5, 1)}, {4: (9, (12, [{}]))}])), 6: (5, 8)}


def test_a_handler_gets_the_structs_of_the_outermost_list_one_by_one() -> None:
    taken: list[Struct] = []

    def take(fields: Struct) -> int:
        taken.append(fields)
        return len(taken)

    assert decoded(encoded(LIST_OF_TWO), {4: take}) == {**LIST_OF_TWO, 4: (9, (12, [1, 2]))}
    assert taken == LIST_OF_TWO[4][1][1]


def test_what_a_handler_took_before_the_bytes_break_off_is_an_error_all_the_same() -> None:
    taken: list[Struct] = []
    with pytest.raises(ValueError, match="breaks off"):
        decoded(encoded(LIST_OF_TWO)[:8], {4: taken.append})
    assert taken == [{1: (5, 1)}]


@pytest.mark.parametrize("value", [(12, {1: (5, 1)}), (8, b"ab"), (7, b"12345678"), (5, 3), (1, True)])
def test_a_handler_is_for_lists_alone(value: tuple[int, object]) -> None:
    assert decoded(encoded({4: value}), {4: lambda _: None}) == {4: value}


def test_a_struct_may_be_given_by_its_bytes() -> None:
    inner: Struct = {1: (5, 1), 2: (8, b"ab")}
    bare: Struct = {1: (9, (12, [inner, {}])), 2: (12, inner)}
    assert encoded({1: (9, (12, [encoded(inner), b"\0"])), 2: (12, encoded(inner))}) == encoded(bare)
