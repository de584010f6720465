"""The lines of commits, one commit after the other: each action by the rules of the table as it then was."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from deltamirror.delta.actions import Action, CommitInfo, Metadata, Protocol
from deltamirror.delta.lines import canonical_adds, decode_admitted
from deltamirror.delta.properties import in_commit_timestamps
from deltamirror.delta.timestamps import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION
from deltamirror.delta.validation import OncePerCommit, TableRules, plain_paths
from deltamirror.delta.validation.metadata import check_metadata
from deltamirror.delta.validation.opening import barred_values
from deltamirror.delta.validation.protocol import check_protocol
from deltamirror.deltalog.rules.findings import Finding, LogObject
from deltamirror.errors import CapacityExceeded, InvalidAction, InvalidInput, Unsupported

Blocks = Callable[[], Iterable[bytes]]
"""Reads the bytes of a file of lines, in blocks of whole lines, as often as it is called."""

_ADD = b'{"add":'
_FOUNDATIONS = (b'"protocol"', b'"metaData"')


def decoded_lines(subject: LogObject, blocks: Iterable[bytes]) -> Iterator[tuple[int, Action | Finding]]:
    """The actions of a file with the numbers of their lines; in the place of one that is none, the rule it breaks."""
    for first, part in _parts(subject, blocks):
        yield from [(first, part)] if isinstance(part, Finding) else _decoded_part(subject, part, first)


def _parts(subject: LogObject, blocks: Iterable[bytes]) -> Iterator[tuple[int, bytes | Finding]]:
    """Whole lines with the number of the first; of each block those before its first add are a part of their own.

    In the place of what is not read, there is the reason.
    """
    count = 0
    try:
        for block in blocks:
            start = 0 if block.startswith(_ADD) else block.find(b"\n" + _ADD) + 1
            for part in filter(None, (block[:start], block[start:])):
                yield count + 1, part
                count += part.count(b"\n") + (not part.endswith(b"\n"))
    except CapacityExceeded as error:
        yield count + 1, subject.of_error(error, line=count + 1)


def _decoded_part(subject: LogObject, part: bytes, first: int) -> Iterator[tuple[int, Action | Finding]]:
    for number, line in enumerate(part.removesuffix(b"\n").split(b"\n"), first):
        if line.strip():
            yield number, _decoded(subject, line, number)


def _decoded(subject: LogObject, line: bytes, number: int) -> Action | Finding:
    try:
        return decode_admitted(line, number=number)
    except (InvalidInput, Unsupported) as error:
        return subject.of_error(error, line=number)


class CommitRules:
    """What commits have to meet, with the protocol, the metadata and the time that the commits before them left."""

    def __init__(self) -> None:
        self.protocol: Protocol | None = None
        self.metadata: Metadata | None = None
        self._rules: TableRules | None = None
        self._last_time: int | None = None
        self._is_complete = True
        """Whether the commit before was there, with every line of it in order."""

    def begin(self, protocol: Protocol, metadata: Metadata) -> None:
        """Take what a checkpoint says of the table, since the commits before it are gone."""
        self.protocol, self.metadata = protocol, metadata
        self._remake()

    def skip(self) -> None:
        """A commit is missing: the next one is held against what is known."""
        self._is_complete = False

    def examined(self, subject: LogObject, version: int, blocks: Blocks) -> Iterator[Finding | Action]:
        """The rules that a commit breaks, and its actions, in the order of its lines."""
        before = self.metadata
        self._take_foundations(subject, blocks)
        once, info, first, index = OncePerCommit(), None, True, 0
        for number, part in _parts(subject, blocks()):
            if isinstance(part, bytes) and (adds := self._plain(part, once)) is not None:
                yield from adds
                first, index = False, index + len(adds)
                continue
            for line, found in [(number, part)] if isinstance(part, Finding) else _decoded_part(subject, part, number):
                if isinstance(found, Finding):
                    self._is_complete = False
                    yield found
                else:
                    info = found if isinstance(found, CommitInfo) and first else info
                    yield from self._broken(subject, found, line, index, once)
                    yield found
                first, index = False, index + 1
        if not index:
            yield subject.finding("log.commit.empty", found="no line")
            return
        yield from self._of_time(subject, version, info, before)

    def _take_foundations(self, subject: LogObject, blocks: Blocks) -> None:
        """Protocol and metadata bind all lines of their commit, whichever line they are on."""
        taken = False
        for _, found in decoded_lines(subject, _only_foundations(blocks())):
            match found:
                case Protocol():
                    self.protocol, taken = found, True
                case Metadata():
                    self.metadata, taken = found, True
        if taken:
            self._remake()

    def _remake(self) -> None:
        self._rules = None
        if self.protocol is not None and self.metadata is not None:
            try:
                self._rules = TableRules.of(self.protocol, self.metadata, verbatim=True)
            except InvalidInput:  # the rules of metaData say what is wrong with it
                self._rules = None

    def _plain(self, part: bytes, once: OncePerCommit) -> Sequence[Action] | None:
        """The actions of whole lines that surely break no rule; None where each has to be looked at."""
        adds = None if self._rules is None else canonical_adds(part)
        if self._rules is None or adds is None or (paths := plain_paths(self._rules, adds)) is None:
            return None
        return adds if once.see_plain(paths) else None

    def _broken(
        self, subject: LogObject, action: Action, number: int, index: int, once: OncePerCommit
    ) -> Iterator[Finding]:
        barred = list(barred_values(action, self.protocol)) if isinstance(action, Metadata) else []
        for key, expects, found in barred:
            field = f"metaData.configuration.{key}"
            yield subject.finding(
                "metaData.configuration.value", line=number, field=field, expected=expects, found=found
            )
        for check in (self._check, once.see):
            try:
                check(action, index)
            except InvalidAction as error:
                yield subject.of_error(error, line=number)
            except InvalidInput as error:
                if not barred:  # which is what it says
                    yield subject.of_error(error, line=number, otherwise="metaData.schema")

    def _check(self, action: Action, index: int) -> None:
        if self._rules is not None:
            self._rules.check(action, index)
        elif isinstance(action, Protocol):
            check_protocol(action, index)
        elif isinstance(action, Metadata) and self.protocol is not None:
            check_metadata(action, self.protocol, index, verbatim=True)

    def _of_time(
        self, subject: LogObject, version: int, info: CommitInfo | None, before: Metadata | None
    ) -> Iterator[Finding]:
        """In-commit timestamps: there, later than the one before, and stated where they begin."""
        was_complete, self._is_complete = self._is_complete, True
        last, self._last_time = self._last_time, None
        if self.metadata is None or not in_commit_timestamps(self.metadata):
            return
        if info is None and was_complete:
            yield subject.finding("log.in-commit-timestamp.missing", field="commitInfo", found="no commitInfo")
        time = None if info is None else info.in_commit_timestamp
        if time is None:
            self._last_time = last
            return
        if last is not None and time <= last:
            field = "commitInfo.inCommitTimestamp"
            yield subject.finding(
                "log.in-commit-timestamp.order", line=1, field=field, expected=f"more than {last}", found=time
            )
        self._last_time = time if last is None else max(time, last)
        begins = version > 0 and before is not None and not in_commit_timestamps(before)
        if begins:
            yield from self._of_enablement(subject, self.metadata, version, time)

    def _of_enablement(self, subject: LogObject, metadata: Metadata, version: int, time: int) -> Iterator[Finding]:
        for name, value in ((ENABLEMENT_VERSION, version), (ENABLEMENT_TIMESTAMP, time)):
            stated = metadata.configuration.get(name)
            if stated != str(value):
                found = "nothing" if stated is None else stated
                field = f"metaData.configuration.{name}"
                yield subject.finding("log.in-commit-timestamp.enablement", field=field, expected=value, found=found)


def _only_foundations(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines that may be protocol or metaData. Most blocks of large commits have none, which is quickly seen."""
    for block in blocks:
        if any(mark in block for mark in _FOUNDATIONS):
            lines = [line for line in block.split(b"\n") if any(mark in line[:32] for mark in _FOUNDATIONS)]
            yield b"\n".join(lines)
