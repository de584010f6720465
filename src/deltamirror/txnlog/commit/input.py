"""Consuming what a writer hands in, once: into memory where it is small, into a stage where it is large."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeAlias

from msgspec.structs import replace

from deltamirror.batches import batched
from deltamirror.delta import lines
from deltamirror.delta.actions import Action, Add, Metadata, Protocol, Remove, Txn
from deltamirror.delta.validation import OncePerCommit, PlainBlock, TableRules, are_plain_removes, plain_block
from deltamirror.errors import InvalidAction, InvalidInput
from deltamirror.txnlog.commit.fingerprint import ActionsDigest, TableContent
from deltamirror.txnlog.commit.request import Change

Pair: TypeAlias = tuple[bytes | None, Action]
"""The bytes of a line where another writer made them, and its action."""


@dataclass(frozen=True, slots=True)
class InputBlock:
    """Some whole lines of a commit, with their actions."""

    data: bytes
    actions: Sequence[Action]
    plain: PlainBlock | None = None
    """The actions as columns, where they are nothing but plain adds."""


# metaData and protocol come first, and the rules for everything after them follow from them.
_FOUNDATION = 2


class Gathered:
    """A change whose stream was opened; up to ``limit`` of its actions are in memory.

    ``clock`` tells the time for actions that state none. ``digested`` asks for a digest of the content.
    """

    def __init__(self, change: Change, *, limit: int, clock: Callable[[], int], digested: bool) -> None:
        self.change = change
        self.is_read = False
        """Whether the stream was read to its end."""
        self.is_judged = False
        """Whether each line of a verbatim commit has passed by rules that are those of the whole commit."""
        self._digest = ActionsDigest() if digested else None
        stream = self._authored(clock) if change.lines is None else self._verbatim()
        self.pairs = list(islice(stream, max(limit, _FOUNDATION)))
        following = next(stream, None)
        self.rest = None if following is None else chain([following], stream)

    @property
    def actions(self) -> list[Action]:
        """The actions in memory."""
        return [action for _, action in self.pairs]

    @property
    def raw(self) -> bytes | None:
        """The bytes of a verbatim commit that is wholly in memory."""
        return None if self.change.lines is None else b"".join(raw or b"" for raw, _ in self.pairs)

    @property
    def is_large(self) -> bool:
        """Whether some of the stream has not been read."""
        return self.rest is not None

    @property
    def content(self) -> TableContent:
        """What is asked of the table, once all of it was read."""
        change = self.change
        return TableContent(
            table=change.table,
            operation=change.operation.name,
            at_version=change.at_version,
            is_verbatim=change.lines is not None,
            actions="" if self._digest is None else self._digest.text(),
        )

    def read_all(self) -> None:
        """Take the whole stream into memory, however large it is."""
        self.pairs += self.rest or ()
        self.rest = None

    def pass_over_rest(self) -> None:
        """Read the stream to its end for the sake of its digest: it cannot be committed any more."""
        for _ in self.rest or ():
            pass

    def checked(self, rules: TableRules, *, skip: Sequence[Action], size: int) -> Iterator[InputBlock]:
        """An authored commit in blocks of lines, each action checked as it passes; but for the actions to ``skip``."""
        once, skipped = OncePerCommit(), {id(action) for action in skip}
        pairs, start = chain(self.pairs, self.rest or ()), 0
        for some in batched(pairs, size):
            if (block := _plain(some, rules, once)) is None:
                kept: list[Pair] = []
                is_admitted = _are_plain_removes(some, rules)
                for index, (raw, action) in enumerate(some, start):
                    once.see(action, index)
                    if id(action) in skipped:
                        continue
                    if isinstance(action, Metadata | Protocol):
                        raise _late(action, index)
                    kept.append((raw, action if is_admitted else rules.admit(action, index)))
                block = _block(kept)
            yield block
            start += len(some)
        self.rest = None

    def passing(self, rules: TableRules | None, *, skip: int, size: int) -> Iterator[InputBlock]:
        """A verbatim commit in blocks of whole lines, without the first ``skip``.

        ``rules`` are those that follow from the lines in memory. A line that they refuse may be lawful by what comes
        after it, and one that they allow unlawful: ``is_judged`` says whether they settled it.
        """
        once, start = OncePerCommit(), 0
        self.is_judged = rules is not None
        for some in batched(chain(self.pairs, self.rest or ()), size):
            for index, (_, action) in enumerate(some, start):
                once.see(action, index)
                if rules is not None and self.is_judged:
                    is_late = index >= len(self.pairs) and isinstance(action, Metadata | Protocol)
                    self.is_judged = not is_late and _allows(rules, action, index)
            yield _block(some[max(skip - start, 0) :])
            start += len(some)
        self.rest = None

    def _authored(self, clock: Callable[[], int]) -> Iterator[Pair]:
        for action in self.change.actions:
            if self._digest is not None:
                self._digest.see(action)
            # Written out, because a million adds run through it.
            yield None, action if type(action) is Add else _timed(action, clock)
        self.is_read = True

    def _verbatim(self) -> Iterator[Pair]:
        if self.change.at_version is None:
            raise InvalidInput(
                f"a verbatim commit to {self.change.table!r} names no version",
                hint="lines of another writer belong to one exact version: give it (--at-version)",
            )
        for number, line in _with_blanks(self.change.lines or ()):
            if self._digest is not None:
                self._digest.see_line(line)
            yield line, lines.decode_admitted(line, number=number)
        self.is_read = True


def _plain(pairs: list[Pair], rules: TableRules, once: OncePerCommit) -> InputBlock | None:
    """The block, if it is nothing but adds that are surely in order."""
    adds = [action for raw, action in pairs if raw is None and type(action) is Add]
    plain = plain_block(rules, adds) if len(adds) == len(pairs) else None
    if plain is None or not once.see_plain(plain.paths):
        return None
    return InputBlock(lines.encode_commit(adds), adds, plain)


def _are_plain_removes(pairs: list[Pair], rules: TableRules) -> bool:
    removes = [action for _, action in pairs if type(action) is Remove]
    return len(removes) == len(pairs) and are_plain_removes(rules, removes)


def _allows(rules: TableRules, action: Action, index: int) -> bool:
    try:
        rules.check(action, index)
    except InvalidAction:
        return False
    return True


def _with_blanks(stream: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Each line with its number; blank lines stay with the line before them, at the beginning with the one after.

    A line that another one follows has an end, whether or not it was handed in with one: glued together, two would be
    none that a reader takes.
    """
    held, number = list[bytes](), 0
    for index, line in enumerate(lines.bounded(stream), 1):
        if not line.isspace():
            if number:
                yield number, lines.with_end(b"".join(held))
                held = []
            number = index
        held.append(line)
    if number:
        yield number, b"".join(held)


def _block(pairs: list[Pair]) -> InputBlock:
    actions = [action for _, action in pairs]
    if pairs and pairs[0][0] is None:
        return InputBlock(lines.encode_commit(actions), actions)
    return InputBlock(b"".join(raw or b"" for raw, _ in pairs), actions)


def _timed(action: Action, clock: Callable[[], int]) -> Action:
    """The action with the time that the reference writer always states."""
    if isinstance(action, Remove) and action.deletion_timestamp is None:
        return replace(action, deletion_timestamp=clock())
    if isinstance(action, Txn) and action.last_updated is None:
        return replace(action, last_updated=clock())
    return action


def _late(action: Action, index: int) -> InvalidAction:
    name = lines.wire_name(action)
    return InvalidAction(
        f"{name} comes as action {index + 1} of a large commit: the actions before it were checked without it",
        hint=f"put {name} first",
        rule="commit.foundation-late",
        action=name,
        index=index,
    )
