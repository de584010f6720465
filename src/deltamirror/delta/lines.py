"""Lines of a commit: actions to canonical bytes, and bytes to typed views.

``encode`` gives the bytes that Delta Lake on Spark (Jackson) gives. ``decode`` gives a *view*: fields that the structs
do not know are dropped, so a line of another writer is stored as it is and never encoded again. ``read_ndjson``
reads what a caller wants us to author; there, a field that would be dropped is an error.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from operator import attrgetter
from typing import Literal, cast

import msgspec

from deltamirror.delta.actions import Action, Add, Remove
from deltamirror.delta.bounds import LONGEST_LINE, MOST_BLANKS, has_long_line
from deltamirror.delta.keys import repeated_key
from deltamirror.delta.shapes import (
    ACTION_TYPES,
    TIMES,
    Place,
    explain,
    hides_something,
    oversized,
    repeats_key,
    unencodable,
    untyped,
)
from deltamirror.errors import InvalidInput

_NAMES: Mapping[type[Action], str] = {struct: name for name, struct in ACTION_TYPES.items()}
_PREFIXES: Mapping[type[Action], bytes] = {struct: f'{{"{name}":'.encode() for name, struct in ACTION_TYPES.items()}
_ESCAPE = re.compile(rb"\\(?:u00[01][0-9a-f]|.)")
_MAYBE_CONTROL = re.compile(rb"u00[01]")  # without the backslash, of which stats are full: twice as fast
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError)


class _Line(msgspec.Struct, gc=False):
    """The object around an action; each kind of action has its own subclass, with its own key."""

    action: Action


def _line(name: str, struct: type[Action]) -> type[_Line]:
    fields = [("action", struct, msgspec.field(name=name))]
    line = msgspec.defstruct(f"_{struct.__name__}Line", fields, bases=(_Line,), forbid_unknown_fields=True, gc=False)
    return cast("type[_Line]", line)


_LINES: Mapping[type[Action], type[_Line]] = {struct: _line(name, struct) for name, struct in ACTION_TYPES.items()}
_ENCODER = msgspec.json.Encoder()
_SORTING_ENCODER = msgspec.json.Encoder(order="sorted")
_DECODERS = {name.encode(): msgspec.json.Decoder(_LINES[struct]) for name, struct in ACTION_TYPES.items()}
_ADDS = msgspec.json.Decoder(_LINES[Add])
_action = attrgetter("action")
_COMMIT_INFO = msgspec.json.Decoder(dict[Literal["commitInfo"], dict[str, msgspec.Raw]])
_VALUES = msgspec.json.Decoder(dict[str, object])


def wire_name(action: Action) -> str:
    """The key of an action on the wire, such as ``metaData``."""
    return _NAMES[type(action)]


def encode(action: Action) -> bytes:
    """The canonical line, without a newline.

    Text that has no UTF-8 form is refused: Jackson would write ``?``, and a path would name another file.
    """
    try:
        line = _plain_line(_without_null_partitions(action) if type(action) is Remove else action)
    except UnicodeEncodeError as error:
        raise unencodable(wire_name(action), error) from None
    except (TypeError, OverflowError, RecursionError) as error:
        raise untyped(wire_name(action), error) from None
    if len(line) > LONGEST_LINE:
        raise oversized(f"{wire_name(action)} would be a line of more than {LONGEST_LINE:,} bytes", Place())
    return _upper_case_escapes(line)


def encode_commit(actions: Iterable[Action]) -> bytes:
    """The bytes of a commit file: each line ends with a newline. One call for many lines is the fast way."""
    actions = list(actions)
    kinds = set(map(type, actions))
    if Remove in kinds:
        actions = [_without_null_partitions(action) if type(action) is Remove else action for action in actions]
    try:
        text = _ENCODER.encode_lines(_wrapped(kinds, actions))
    except (UnicodeEncodeError, TypeError, OverflowError, RecursionError):
        text = None
    if text is None or has_long_line(text):
        return b"".join([encode(action) + b"\n" for action in actions])  # which names the culprit
    return _upper_case_escapes(text)


def _wrapped(kinds: Set[type[Action]], actions: Sequence[Action]) -> list[_Line]:
    if len(kinds) == 1:
        return list(map(_LINES[next(iter(kinds))], actions))
    return [_LINES[type(action)](action) for action in actions]


def canonical_line(action: Action) -> bytes:
    """The action with its fields and the keys of its mappings sorted: equal for equal actions, for digests."""
    try:
        return b"%b%b}" % (_PREFIXES[type(action)], _SORTING_ENCODER.encode(action))
    except UnicodeEncodeError as error:
        raise unencodable(wire_name(action), error) from None
    except (TypeError, OverflowError, RecursionError) as error:
        raise untyped(wire_name(action), error) from None


def canonical_json(value: object) -> bytes:
    """Compact JSON with sorted keys, for digests; text that has no UTF-8 form is refused."""
    return _json(_SORTING_ENCODER, value)


def json_text(value: object) -> str:
    """Compact JSON as Jackson writes it, for JSON inside of strings: schemas, domain configurations, parameters."""
    return _upper_case_escapes(json_bytes(value)).decode()


def json_bytes(value: object) -> bytes:
    """Compact JSON; text that has no UTF-8 form is refused."""
    return _json(_ENCODER, value)


def _json(encoder: msgspec.json.Encoder, value: object) -> bytes:
    try:
        return encoder.encode(value)
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{error.object!r:.200} cannot be written: {error.reason}", hint="text is UTF-8") from None
    except (TypeError, OverflowError, RecursionError) as error:
        hint = "give texts, numbers, lists and mappings"
        raise InvalidInput(f"a value cannot be written as JSON: {error}", hint=hint) from None


def with_end(line: bytes) -> bytes:
    """The line with the end that sets it apart from the next one, as it is if it has one.

    A carriage return alone is none: readers that look for newlines would take both lines for one.
    """
    return line if line.endswith(b"\n") else line + b"\n"


def decode(line: bytes | str, *, number: int | None = None) -> Action:
    """The typed view of one line; errors name its ``number``, if it has one."""
    text = line.encode(errors="surrogatepass") if isinstance(line, str) else line
    return _decode(text.strip(), authored=False, place=Place(line=number))


def decode_admitted(line: bytes, *, number: int) -> Action:
    """The typed view of a line that another writer made and that is to be committed: no key comes twice."""
    action, place = decode(line, number=number), Place(line=number)
    if (key := repeated_key(line)) is not None:
        raise repeats_key(wire_name(action), key, place)
    return action


def decode_commit(data: bytes, *, source: str = "") -> list[Action]:
    """The typed views of a commit file. Blank lines are skipped, and the last newline may be missing."""
    return list(_decode_all(data.split(b"\n"), source=source, authored=False))


def canonical_adds(data: bytes) -> list[Add] | None:
    """The adds of whole lines that are nothing else, spelled as we spell them; None where one line is otherwise.

    Such lines hide nothing, and have no key twice but in statistics.
    """
    if not data.startswith(_PREFIXES[Add]):
        return None
    try:
        found = _ADDS.decode_lines(data)
        if _ENCODER.encode_lines(found) != with_end(data):
            return None
    except (*_UNDECODABLE, UnicodeEncodeError):
        return None
    adds = cast("list[Add]", list(map(_action, found)))
    return adds if min(add.modification_time for add in adds) >= 0 else None


def read_ndjson(stream: Iterable[bytes], *, source: str) -> Iterator[Action]:
    """The actions of a stream of lines (a file opened in binary mode is one), one at a time, to be authored by us.

    Blank lines are skipped. A field that the action does not have is refused, since it would be lost.
    """
    return _decode_all(bounded(stream, source=source), source=source, authored=True)


def bounded(stream: Iterable[bytes], *, source: str = "") -> Iterator[bytes]:
    """The lines of a stream from outside, none of them too long, and not too many of them blank."""
    blanks = 0
    for number, line in enumerate(stream, 1):
        if len(line) - line.endswith(b"\n") > LONGEST_LINE:
            raise oversized(f"a line of more than {LONGEST_LINE:,} bytes", Place(source, number))
        if line.isspace():
            blanks += len(line)
            if blanks > MOST_BLANKS:
                raise oversized(f"more than {MOST_BLANKS:,} bytes of blank lines", Place(source, number))
        yield line


def _decode_all(lines: Iterable[bytes], *, source: str, authored: bool) -> Iterator[Action]:
    index = 0
    for number, untrimmed in enumerate(lines, 1):
        line = untrimmed.strip()
        if line:
            try:
                yield _view(line, authored=authored)
            except _UNDECODABLE:
                yield _decode(line, authored=authored, place=Place(source, number, index))
            index += 1


def _decode(line: bytes, *, authored: bool, place: Place) -> Action:
    try:
        return _view(line, authored=authored)
    except _UNDECODABLE:
        pass
    try:
        return _tolerant_commit_info(line)
    except _UNDECODABLE:
        raise explain(line, authored=authored, place=place) from None


def _view(line: bytes, *, authored: bool) -> Action:
    """The view of a line, or an exception that only says that there is none: ``explain`` has the reason."""
    action = _DECODERS[line.split(b'"', 2)[1]].decode(line).action
    # A canonical line has nothing that the view lacks. Encoding costs less than looking for it.
    if _plain_line(action) != line and hides_something(line, authored=authored):
        raise msgspec.ValidationError
    for field in TIMES[type(action)]:
        if (getattr(action, field) or 0) < 0:
            raise msgspec.ValidationError
    return action


def _tolerant_commit_info(line: bytes) -> Action:
    """A commitInfo as other writers have it: metrics and tags that are not strings become their JSON text."""
    body = _COMMIT_INFO.decode(line)["commitInfo"]
    texts = {key: _with_text_values(body[key]) for key in ("operationMetrics", "tags") if key in body}
    return _view(_ENCODER.encode({"commitInfo": {**body, **texts}}), authored=False)


def _with_text_values(raw: msgspec.Raw) -> dict[str, str]:
    values = _VALUES.decode(raw).items()
    return {key: value if isinstance(value, str) else json_text(value) for key, value in values}


def _plain_line(action: Action) -> bytes:
    return b"%b%b}" % (_PREFIXES[type(action)], _ENCODER.encode(action))


def _without_null_partitions(remove: Remove) -> Remove:
    """Jackson leaves out the null entries of every map but ``add.partitionValues`` and ``cdc.partitionValues``."""
    values = remove.partition_values
    if values is None or None not in values.values():
        return remove
    return msgspec.structs.replace(remove, partition_values={k: v for k, v in values.items() if v is not None})


def _upper_case_escapes(text: bytes) -> bytes:
    r"""Jackson writes ``\u001F`` where msgspec writes ``\u001f``."""
    return _ESCAPE.sub(_upper_case_hex, text) if _MAYBE_CONTROL.search(text) else text


def _upper_case_hex(escape: re.Match[bytes]) -> bytes:
    found = escape[0]
    return b"\\u" + found[2:].upper() if found.startswith(b"\\u") else found
