"""The rules of a whole commit: each action on its own, and what the actions may not be to each other."""

from collections.abc import Iterable, Sequence

from deltamirror.delta.actions import Action, Add, CommitInfo, DomainMetadata, Metadata, Protocol, Remove, Txn
from deltamirror.delta.lines import wire_name
from deltamirror.delta.paths import path_identity
from deltamirror.delta.validation.metadata import check_metadata
from deltamirror.delta.validation.protocol import check_protocol, check_upgrade
from deltamirror.delta.validation.rules import violation
from deltamirror.delta.validation.table import TableRules


def check_actions(
    actions: Sequence[Action],
    *,
    protocol: Protocol,
    metadata: Metadata,
    previous_protocol: Protocol | None = None,
    verbatim: bool = False,
    rows_checked: bool = False,
    system_domains: Iterable[str] = (),
) -> None:
    """Raise InvalidAction unless the commit is in order.

    ``protocol`` and ``metadata`` are those in force after the commit, its own included; ``previous_protocol`` is
    the one before it. :class:`TableRules` says what the other words mean.
    """
    _check_foundations(actions, protocol, verbatim=verbatim, previous=previous_protocol)
    rules = TableRules.of(
        protocol, metadata, verbatim=verbatim, rows_checked=rows_checked, system_domains=system_domains
    )
    once = OncePerCommit()
    for index, action in enumerate(actions):
        rules.check(action, index)
        once.see(action, index)


def _check_foundations(
    actions: Sequence[Action], protocol: Protocol, *, verbatim: bool, previous: Protocol | None
) -> None:
    """Check protocol and metadata, before the rules of the table are made from them."""
    for index, action in enumerate(actions):
        if isinstance(action, Protocol):
            check_protocol(action, index)
            if previous is not None and not verbatim:
                check_upgrade(action, previous, index)
    for index, action in enumerate(actions):
        if isinstance(action, Metadata):
            check_metadata(action, protocol, index, verbatim=verbatim)


class OncePerCommit:
    """Remembers the actions of one commit, and refuses what may not come twice."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()
        self._added: dict[str, str | None] = {}
        self._removed: dict[str, str | None] = {}

    def see(self, action: Action, index: int | None = None) -> None:
        """Raise InvalidAction if the action clashes with one that was seen before."""
        match action:
            case Add():
                self._see_file(action, index, mine=self._added, others=self._removed)
            case Remove():
                self._see_file(action, index, mine=self._removed, others=self._added)
            case Metadata():
                self._see_named(action, index, "commit.metadata-twice", "")
            case Protocol():
                self._see_named(action, index, "commit.protocol-twice", "")
            case CommitInfo():
                self._see_named(action, index, "commitInfo.twice", "")
            case Txn():
                self._see_named(action, index, "commit.app-id-twice", action.app_id)
            case DomainMetadata():
                self._see_named(action, index, "commit.domain-twice", action.domain)
            case _:
                pass

    def see_plain(self, paths: Sequence[str]) -> bool:
        """See adds of files without deletion vectors, by identity. On a clash, nothing is seen: False."""
        fresh = dict.fromkeys(paths)
        if len(fresh) < len(paths) or not (
            self._added.keys().isdisjoint(fresh) and self._removed.keys().isdisjoint(fresh)
        ):
            return False
        self._added.update(fresh)
        return True

    def _see_named(self, action: Action, index: int | None, rule: str, name: str) -> None:
        if (rule, name) in self._seen:
            raise violation(rule, action=wire_name(action), index=index, field="", found=name or wire_name(action))
        self._seen.add((rule, name))

    def _see_file(
        self,
        action: Add | Remove,
        index: int | None,
        *,
        mine: dict[str, str | None],
        others: dict[str, str | None],
    ) -> None:
        path, name = path_identity(action.path), wire_name(action)
        vector = None if action.deletion_vector is None else action.deletion_vector.unique_id
        if path in mine:
            raise violation(f"commit.{name}-twice", action=name, index=index, field="path", found=action.path)
        if path in others and others[path] == vector:
            raise violation("commit.added-and-removed", action=name, index=index, field="path", found=action.path)
        mine[path] = vector
