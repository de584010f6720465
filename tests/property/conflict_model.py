"""A simple model of Delta's conflict checker, on values: what a transaction is told, given what came before it.

Written from the rules alone (delta-reference, section 8): a list of versions for each table, and for each winner the
checks in Delta's order. It knows nothing of texts, rows, locks or SQL, and shares no code with the product.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

ALREADY = "already applied"
UNKNOWN = "unknown"
"""The partition of a removed file whose line does not state it."""

Value = int | str | None
"""A partition: the number of a value of the column's type, null, or ``UNKNOWN``."""


@dataclass(frozen=True)
class Changes:
    """What a commit does to metadata or protocol; harmful is what written files may not be valid under."""

    harmful: bool


@dataclass
class Did:
    """What a commit did to one table."""

    added: dict[str, Value] = field(default_factory=dict)
    removed: dict[str, Value] = field(default_factory=dict)
    changes_data: bool = False
    metadata: Changes | None = None
    protocol: Changes | None = None
    apps: dict[str, int] = field(default_factory=dict)
    domains: set[str] = field(default_factory=set)
    features: set[str] = field(default_factory=set)
    """What a change of the protocol adds."""

    @property
    def writes(self) -> bool:
        return bool(self.added or self.removed or self.metadata or self.protocol or self.apps or self.domains)

    @property
    def only_moves_files(self) -> bool:
        others = self.metadata or self.protocol or self.apps or self.domains
        return bool(self.added or self.removed) and not others and not self.changes_data


@dataclass
class Reads:
    """What a transaction said that it read of a table."""

    everything: bool = False
    partitions: list[set[Value]] = field(default_factory=list)
    files: set[str] = field(default_factory=set)

    @property
    def any(self) -> bool:
        return self.everything or bool(self.partitions) or bool(self.files)

    def cover(self, path: str, value: Value) -> bool:
        if self.everything or path in self.files:
            return True
        return any(value == UNKNOWN or value in read for read in self.partitions)


@dataclass
class Plan:
    """What a transaction does to one table, and since when it knows the table."""

    did: Did = field(default_factory=Did)
    reads: Reads = field(default_factory=Reads)
    first: int | None = None
    """The version at which it was first named."""
    looked: int | None = None
    """The version at which more was done than to add files."""
    taken: int | None = None
    """The version at which it was read, or changed by what is in it."""
    exact: int | None = None
    large: bool = False
    """So many actions that they are staged: a change of metadata or protocol is looked for before that."""


class Lake:
    """Tables as lists of what each version did; version 0 does nothing that matters."""

    def __init__(self, names: list[str]) -> None:
        self.tables: dict[str, list[Did]] = {name: [Did()] for name in names}

    def head(self, name: str) -> int:
        return len(self.tables[name]) - 1

    def latest(self, name: str) -> dict[str, int]:
        """The version of each application."""
        return {app: version for did in self.tables[name] for app, version in did.apps.items()}

    def live(self, name: str) -> dict[str, Value]:
        """The files, with their partitions."""
        found: dict[str, Value] = {}
        for did in self.tables[name]:
            found = {path: value for path, value in found.items() if path not in did.removed} | did.added
        return found

    def commit(self, plans: dict[str, Plan]) -> str | dict[str, int]:
        """The versions that a transaction gets, or the word for why it gets none; takes it in if it does."""
        if (answer := self._applied(plans)) is not None:
            return answer
        for name, plan in plans.items():
            if (reason := self._refusal(name, plan, alone=len(plans) == 1)) is not None:
                return reason
        for name, plan in plans.items():
            if any(version <= self.latest(name).get(app, -1) for app, version in plan.did.apps.items()):
                return "already-applied"
        for name, plan in plans.items():
            if plan.did.writes:
                self.tables[name].append(plan.did)
        return {name: self.head(name) for name, plan in plans.items() if plan.did.writes}

    def _applied(self, plans: dict[str, Plan]) -> str | None:
        """Whether the applications have done it: all of it, or some, which is nobody's transaction."""
        done: list[bool] = []
        for name, plan in plans.items():
            apps = plan.did.apps
            if not apps:
                continue
            if plan.exact is not None:
                recorded = self.tables[name][plan.exact].apps if plan.exact <= self.head(name) else {}
                done.append(apps.items() <= recorded.items())
                continue
            each = [version <= self.latest(name).get(app, -1) for app, version in apps.items()]
            if any(each) and not all(each):
                return "partly-applied"
            done.append(all(each))
        if not any(done):
            return None
        return ALREADY if all(done) else "partly-applied"

    def _refusal(self, name: str, plan: Plan, *, alone: bool) -> str | None:
        head, did = self.head(name), plan.did
        if plan.exact is not None:
            if head != plan.exact - 1:
                return "version-taken" if head >= plan.exact else "version-ahead"
            since = head if plan.taken is None else plan.taken
        else:
            since = self._since(name, plan)
        reads = plan.reads
        if did.removed and not reads.any:
            reads = Reads(everything=True)
        sees_appends = not (alone and did.only_moves_files)
        winners = self.tables[name][since + 1 :]
        if plan.large and (reason := next(self._settled(did, winners), None)) is not None:
            return reason
        return next((reason for each in winners if (reason := _conflict(did, reads, each, sees_appends))), None)

    def _since(self, name: str, plan: Plan) -> int:
        """From which version on others count: from the first look, or from the first sight if the rules changed."""
        assert plan.first is not None
        changed = any(each.metadata or each.protocol for each in self.tables[name][plan.first + 1 :])
        if changed:
            return plan.first
        return self.head(name) if plan.looked is None else plan.looked

    def _settled(self, did: Did, winners: list[Did]) -> Iterator[str]:
        for winner in winners:
            if (reason := _changed_rules(did, winner)) is not None:
                yield reason


def _changed_rules(did: Did, winner: Did) -> str | None:
    for kind in ("protocol", "metadata"):
        won: Changes | None = getattr(winner, kind)
        if won is not None and (won.harmful or getattr(did, kind) is not None):
            return f"{kind}-changed"
    return None


def _conflict(did: Did, reads: Reads, winner: Did, sees_appends: bool) -> str | None:
    """The first of Delta's checks that fails."""
    if (reason := _changed_rules(did, winner)) is not None:
        return reason
    if did.domains & winner.domains:
        return "concurrent-domain"
    if did.apps.keys() & winner.apps.keys():
        return "concurrent-transaction"
    if sees_appends and any(reads.cover(path, value) for path, value in winner.added.items()):
        return "concurrent-append"
    if any(reads.cover(path, value) for path, value in winner.removed.items()):
        return "concurrent-delete-read"
    if did.removed.keys() & winner.removed.keys():
        return "concurrent-delete-delete"
    return None
