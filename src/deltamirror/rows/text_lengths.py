"""Lengths of texts, for columns that were declared ``char(n)`` or ``varchar(n)``: stored as Spark stores them."""

import re
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.schema import Field
from deltamirror.delta.schema.keys import CHAR_VARCHAR

_DECLARED: Final = re.compile(r"\s*(char|varchar)\s*\(\s*(\d+)\s*\)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TextLength:
    """How many characters the texts of a column may have, or, if they are padded, have."""

    declared: str
    length: int
    is_padded: bool

    @classmethod
    def of(cls, field: Field) -> Self | None:
        """That of a column; None where it takes texts of any length."""
        declared = str(field.metadata.get(CHAR_VARCHAR, ""))
        found = _DECLARED.fullmatch(declared)
        return None if found is None else cls(declared, int(found[2]), found[1].lower() == "char")

    def fitted(self, texts: pa.Array) -> pa.Array:
        """The texts, without spaces that are too many at their ends; ValueError names one that is too long."""
        rest = pc.utf8_rtrim(pc.utf8_slice_codeunits(texts, self.length), characters=" ")
        if pc.max(pc.utf8_length(rest)).as_py():
            raise ValueError(f"{texts.filter(pc.not_equal(rest, ''))[0].as_py()!r} is longer")
        cut = pc.utf8_slice_codeunits(texts, 0, self.length)
        return pc.utf8_rpad(cut, self.length, padding=" ") if self.is_padded else cut


def nested_lengths(field: Field) -> str | None:
    """The declared type of a column that has such texts inside of it; None where it has none."""
    declared = str(field.metadata.get(CHAR_VARCHAR, ""))
    return declared if declared and _DECLARED.fullmatch(declared) is None else None
