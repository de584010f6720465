"""The page of the matrix, from the kinds and the limits that the tests hold readers to."""

from pathlib import Path
from typing import Final

from tests.matrix.kinds import KINDS, WrittenBySpark
from tests.matrix.limits import LIMITS
from tests.support.readers.reader import READERS

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "readers.md"
_BEGINNING: Final = """# Which readers open which tables

Written by `python -m tests.matrix`; do not edit. Each cell is a test (`tests/interop/test_matrix.py`): the reader finds
the rows of a table whose log we published, through its commits alone, through a checkpoint and what follows, and
through both, on a disk and on S3. **yes** is all of that. A number is a limit of the reader, for any writer;
the test fails once it is gone. The versions of readers are those in `requirements/dev.txt`.
"""


def page() -> str:
    """The page as it should be."""
    notes = {limit: number for number, limit in enumerate(dict.fromkeys(LIMITS.values()), 1)}
    lines = [_BEGINNING, f"| Table | {' | '.join(READERS)} |", f"|---|{'---|' * len(READERS)}"]
    for kind, each in KINDS.items():
        cells = [LIMITS.get((reader, kind)) for reader in READERS]
        told = ["yes" if limit is None else f"[{notes[limit]}](#limits)" for limit in cells]
        lines.append(f"| **{kind}**: {each.says} | {' | '.join(told)} |")
    lines += ["", "## Limits", ""]
    for limit, number in notes.items():
        lines.append(f"{number}. {limit.why}: `{limit.says}`")
    spark = ", ".join(kind for kind, each in KINDS.items() if isinstance(each.made, WrittenBySpark))
    lines += ["", f"Written by Delta Lake on Spark, and taken in line by line: {spark}."]
    lines += ["All others are written by us, from Arrow data."]
    return "\n".join(lines) + "\n"
