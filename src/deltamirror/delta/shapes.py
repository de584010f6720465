"""The shape of a line on the wire, and what is wrong with a line that does not have it.

Decoding is fast and says little when it fails. ``explain`` runs after a failure, takes the line apart slowly, and
names the action, the field, the rule and what was found.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from deltamirror.delta.actions import (
    Action,
    Add,
    Cdc,
    CheckpointMetadata,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Sidecar,
    Txn,
)
from deltamirror.delta.keys import repeated_key
from deltamirror.errors import DeltaMirrorError, InvalidAction, InvalidLine, Unsupported

ACTION_TYPES: Mapping[str, type[Action]] = {
    "add": Add,
    "remove": Remove,
    "cdc": Cdc,
    "metaData": Metadata,
    "protocol": Protocol,
    "txn": Txn,
    "domainMetadata": DomainMetadata,
    "commitInfo": CommitInfo,
    "checkpointMetadata": CheckpointMetadata,
    "sidecar": Sidecar,
}
"""The key of an action on the wire, and its struct."""

TIMES: Mapping[type[Action], tuple[str, ...]] = {
    Add: ("modification_time",),
    Remove: ("deletion_timestamp",),
    Metadata: ("created_time",),
    Txn: ("last_updated",),
    CommitInfo: ("in_commit_timestamp", "timestamp"),
    Sidecar: ("modification_time",),
    Cdc: (),
    Protocol: (),
    DomainMetadata: (),
    CheckpointMetadata: (),
}
"""The fields that are milliseconds since 1970."""

_JSON_TEXTS = frozenset({"add.stats", "remove.stats", "metaData.schemaString", "domainMetadata.configuration"})
_FIELDS: Mapping[str, frozenset[str]] = {
    name: frozenset(field.encode_name for field in msgspec.structs.fields(struct))
    for name, struct in ACTION_TYPES.items()
}
_OUTLINE = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]])
_ONE_ACTION = 'write one action a line, such as {"add":{…}}'
_LONGEST_FOUND = 80


class ShapeRule(StrEnum):
    """The ``rule`` of an :class:`InvalidAction` that concerns the shape of a line, not its meaning."""

    BODY = "shape.body"
    JSON_TEXT = "shape.json-text"
    MISSING_FIELD = "shape.missing-field"
    NEGATIVE_TIME = "shape.negative-time"
    REPEATED_KEY = "shape.repeated-key"
    SNAKE_CASE = "shape.snake-case"
    TEXT = "shape.text"
    UNKNOWN_FIELD = "shape.unknown-field"
    WRONG_TYPE = "shape.wrong-type"

    @property
    def remedy(self) -> str:
        """What to do about a line that breaks the rule."""
        return _REMEDIES[self]


_REMEDIES: Mapping[ShapeRule, str] = {
    ShapeRule.BODY: _ONE_ACTION,
    ShapeRule.JSON_TEXT: "encode the JSON once more, as a string",
    ShapeRule.MISSING_FIELD: "give the field: the protocol requires it",
    ShapeRule.NEGATIVE_TIME: "give the time in milliseconds since 1970",
    ShapeRule.REPEATED_KEY: "give each key once: some readers take the first value, others the last",
    ShapeRule.SNAKE_CASE: "spell fields as the protocol does, in camelCase",
    ShapeRule.TEXT: "give text that has a UTF-8 form",
    ShapeRule.UNKNOWN_FIELD: "leave it out, or commit complete lines verbatim (--verbatim --at-version N)",
    ShapeRule.WRONG_TYPE: "give a value of the type that docs/reference/actions.md names for the field",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line stands: its source, its number from 1, and the index of its action from 0."""

    source: str = ""
    line: int | None = None
    index: int | None = None

    def __str__(self) -> str:
        number = "line" if self.line is None else f"line {self.line}"
        return f"{self.source}, {number}" if self.source else number


def explain(line: bytes, *, authored: bool, place: Place) -> DeltaMirrorError:
    """Why ``line`` is not one well-formed action, or not one that we can author."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _invalid_line(_why_not_json(line, error), place)
    if not isinstance(value, dict):
        return _invalid_line(f"a JSON {_json_type(value)} instead of an object", place)
    if len(value) != 1 or _repeats_its_action(line):
        found = f"several ({', '.join(value)})" if value else "none"
        return _invalid_line(f"has to hold exactly one action, found {found}", place)
    ((name, body),) = value.items()
    if name not in ACTION_TYPES:
        known = ", ".join(ACTION_TYPES)
        return Unsupported(f"{place}: unknown action {name!r}", hint=f"actions are {known}", features=(name,))
    if not isinstance(body, dict):
        what = f"has to be an object, not a JSON {_json_type(body)}"
        return _Field(name, "", body, place).invalid(ShapeRule.BODY, what)
    problem = _snake_case(name, body, place) or _wrong_field(name, body, place)
    if problem is None and authored:
        key = repeated_key(line)
        problem = _unknown_field(name, body, place) if key is None else repeats_key(name, key, place)
    return problem or _invalid_line(f"not a well-formed {name}", place)


def hides_something(line: bytes, *, authored: bool) -> bool:
    """Whether a line that decodes has what its view must not lose: a second action, bytes that are no text.

    In a line that we author, that is an unknown field too.
    """
    line.decode()
    ((name, body),) = _OUTLINE.decode(line).items()
    if authored and (not body.keys() <= _FIELDS[name] or repeated_key(line) is not None):
        return True
    return line.count(f'"{name}"'.encode()) > 1 and _repeats_its_action(line)


def repeats_key(name: str, key: str, place: Place) -> InvalidAction:
    """An object of the action called ``name`` has a key twice."""
    return _Field(name, key, key, place).invalid(ShapeRule.REPEATED_KEY, "comes twice in one object")


def unencodable(name: str, error: UnicodeEncodeError) -> InvalidAction:
    """The action called ``name`` holds text that has no UTF-8 form."""
    found = ascii(error.object[error.start : error.end])
    return InvalidAction(
        f"{name} holds text without a UTF-8 form: {found}",
        hint=_REMEDIES[ShapeRule.TEXT],
        rule=ShapeRule.TEXT,
        action=name,
        found=found,
    )


def untyped(name: str, error: Exception) -> InvalidAction:
    """The action called ``name`` was made in Python, with a value in one of its fields that JSON does not have."""
    rule = ShapeRule.WRONG_TYPE
    return InvalidAction(f"{name} cannot be written: {error}", hint=rule.remedy, rule=rule, action=name)


@dataclass(frozen=True, slots=True)
class _Field:
    """A field as found on a line."""

    action: str
    name: str
    value: object
    place: Place

    def invalid(self, rule: ShapeRule, what: str) -> InvalidAction:
        label = f"{self.action}.{self.name}" if self.name else self.action
        return InvalidAction(
            f"{self.place}: {label} {what}",
            hint=_REMEDIES[rule],
            rule=rule,
            action=self.action,
            index=self.place.index,
            field=self.name,
            found=_shown(self.value),
        )


def _repeats_its_action(line: bytes) -> bool:
    """Whether the object has its key twice: parsers take the last and lose the first."""
    return len(json.loads(line, object_pairs_hook=list)) > 1


def _wrong_field(name: str, body: Mapping[str, object], place: Place) -> InvalidAction | None:
    for field in msgspec.structs.fields(ACTION_TYPES[name]):
        found = _Field(name, field.encode_name, body.get(field.encode_name), place)
        problem = None
        if field.encode_name in body:
            problem = _wrong_value(found, field)
        elif field.required:
            problem = found.invalid(ShapeRule.MISSING_FIELD, "is missing")
        if problem is not None:
            return problem
    return None


def _unknown_field(name: str, body: Mapping[str, object], place: Place) -> InvalidAction | None:
    for field, value in body.items():
        if field not in _FIELDS[name]:
            return _Field(name, field, value, place).invalid(ShapeRule.UNKNOWN_FIELD, "is not a field of this action")
    return None


def _snake_case(name: str, body: Mapping[str, object], place: Place) -> InvalidAction | None:
    for field in msgspec.structs.fields(ACTION_TYPES[name]):
        if field.name != field.encode_name and field.name in body:
            found = _Field(name, field.name, field.name, place)
            return found.invalid(ShapeRule.SNAKE_CASE, f"has to be spelled {field.encode_name!r}")
    return None


def _wrong_value(found: _Field, field: msgspec.structs.FieldInfo) -> InvalidAction | None:
    if f"{found.action}.{found.name}" in _JSON_TEXTS and isinstance(found.value, dict | list):
        return found.invalid(ShapeRule.JSON_TEXT, "has to be a string that holds JSON, not JSON itself")
    try:
        value = msgspec.json.decode(msgspec.json.encode(found.value), type=field.type)
    except msgspec.ValidationError as error:
        return found.invalid(ShapeRule.WRONG_TYPE, f"has a wrong type: {error}")
    if value is not None and field.name in TIMES.get(ACTION_TYPES[found.action], ()) and value < 0:
        return found.invalid(ShapeRule.NEGATIVE_TIME, "has to be milliseconds since 1970, and not negative")
    return None


def _why_not_json(line: bytes, error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    try:
        text = line.decode()
    except UnicodeDecodeError as undecodable:
        return f"not UTF-8: {undecodable.reason} at byte {undecodable.start}"
    if text.startswith("\ufeff"):
        return "begins with a byte order mark; save the file as UTF-8 without one"
    if _has_lone_surrogate(text):
        return "has a surrogate escape that is not part of a pair"
    return f"not JSON: {error}"


def _has_lone_surrogate(text: str) -> bool:
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        pass
    return False


def oversized(what: str, place: Place) -> InvalidLine:
    """The error for more than is taken in."""
    hint = "Delta writers make nothing like it, and Delta readers fail at it: look at the file"
    return InvalidLine(f"{place}: {what}", hint=hint, source=place.source, line=place.line)


def _invalid_line(what: str, place: Place) -> InvalidLine:
    return InvalidLine(f"{place}: {what}", hint=_ONE_ACTION, source=place.source, line=place.line)


def _json_type(value: object) -> str:
    """What JSON calls a value that is no object."""
    names = {list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def _shown(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_FOUND else f"{text[:_LONGEST_FOUND]}…"
