"""Items that a thread makes ahead of their use: in order, bounded, and not beyond their need."""

import threading
from collections.abc import Iterator
from itertools import count

import pytest

from deltamirror.errors import InvalidInput
from deltamirror.pipeline.run.log_reading import ahead

pytestmark = [pytest.mark.requirement("R31"), pytest.mark.requirement("R87")]


def test_items_come_in_their_order() -> None:
    assert list(ahead(lambda: iter(range(100)), most=2)) == list(range(100))


def test_an_error_is_raised_in_the_place_of_the_item_that_it_is_about() -> None:
    def items() -> Iterator[int]:
        yield from (1, 2)
        raise InvalidInput("the third")

    found = ahead(items, most=1)
    assert (next(found), next(found)) == (1, 2)
    with pytest.raises(InvalidInput, match="the third"):
        next(found)


def test_a_reader_that_wants_no_more_ends_the_thread() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in count():
            made.append(number)
            yield number

    found = ahead(items, most=2)
    assert next(found) == 0
    found.close()
    assert not [each for each in threading.enumerate() if each.name == "import"]
    assert len(made) <= 1 + 2 + 2  # taken, waiting, and the one that waits for its place
