"""The error for a name that no table has, with the names that may have been meant."""

from difflib import get_close_matches
from typing import Final

from sqlalchemy import Connection, select

from deltamirror.errors import NotFound
from deltamirror.txnlog.database.schema import tables

_MOST_NEAR_NAMES: Final = 3
_LONGEST_COMPARED_NAME: Final = 255
_MOST_COMPARED_NAMES: Final = 500  # comparing costs some 20 µs a name, and asking whether a table exists comes this way


def no_such_table(connection: Connection, name: str) -> NotFound:
    """The error for a name that no table has; it names tables of nearly that name."""
    names = select(tables.c.name).where(tables.c.name.is_not(None)).limit(_MOST_COMPARED_NAMES)
    known = {known.lower(): known for known in connection.execute(names).scalars()}
    compared = known if len(name) <= _LONGEST_COMPARED_NAME else {}
    near = [known[each] for each in get_close_matches(name.lower(), compared, n=_MOST_NEAR_NAMES)]
    meant = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    hint = f"{meant}`deltamirror table list` shows the tables of this catalog"
    return NotFound(f"there is no table {name!r}", hint=hint, table=name)
