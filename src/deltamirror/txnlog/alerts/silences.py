"""Silences: alerts of which no notification is sent, until a time. They fire, and are listed, all the same."""

import re
import uuid
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any, Final

from sqlalchemy import Connection, delete, insert, select

from deltamirror.errors import NotFound
from deltamirror.txnlog.alerts.records import AlertKey
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import silences as rows

_PATTERN: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Alerts whose rule and subject match these patterns are not announced."""

    silence_id: str
    rule: str
    subject: str
    created_at: int
    ends_at: int
    reason: str
    author: str

    def covers(self, key: AlertKey) -> bool:
        """Whether an alert is one of them."""
        return fnmatchcase(key.rule, self.rule) and fnmatchcase(key.subject, self.subject)

    @property
    def only_subject(self) -> str | None:
        """The one table, store or channel that it is for; None: all that match a pattern."""
        return None if _PATTERN.search(self.subject) else self.subject


def silence(
    database: Database, *, seconds: float, reason: str, author: str, rule: str = "*", subject: str = "*"
) -> Silence:
    """Silence the alerts that match, for so many seconds from here on."""
    values: dict[str, Any] = {"rule": rule, "subject": subject, "reason": reason, "author": author}
    name = uuid.uuid4().hex[:8]
    times = {"created_at": CLOCK, "ends_at": CLOCK + int(seconds * 1000)}
    with database.write() as session:
        session.execute(delete(rows).where(rows.c.ends_at <= CLOCK))
        made = session.execute(insert(rows).values(silence_id=name, **values, **times).returning(*_COLUMNS)).one()
    return Silence(**made._asdict())


def silences(database: Database) -> list[Silence]:
    """The silences that last, the first to end first."""
    with database.read() as connection:
        return active_silences(connection)


def active_silences(connection: Connection) -> list[Silence]:
    """The same, as part of a transaction."""
    lasting = select(*_COLUMNS).where(rows.c.ends_at > CLOCK).order_by(rows.c.ends_at, rows.c.silence_id)
    return [Silence(**row._asdict()) for row in connection.execute(lasting)]


def end_silence(database: Database, silence_id: str, *, subject: str | None = None) -> Silence:
    """End a silence before its time; with a ``subject``, only if it is for that and for no other."""
    own = rows.c.silence_id == silence_id
    with database.write() as session:
        gone = delete(rows).where(own if subject is None else own & (rows.c.subject == subject)).returning(*_COLUMNS)
        found = session.execute(gone).first()
    if found is None:
        raise NotFound(f"there is no silence {silence_id!r}", hint="`deltamirror alert list` shows the silences")
    return Silence(**found._asdict())


_COLUMNS: Final = [rows.c[each.name] for each in fields(Silence)]
