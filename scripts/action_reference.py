"""The pages actions.md and log-rules.md of docs/reference: fields from ``delta/actions.py``, rules from its validation.

The structs say names, types and order; what a field means is said here. A field without a meaning fails.
"""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import inspect

import deltamirror
from deltamirror.delta.actions import DeletionVector, Format
from deltamirror.delta.shapes import ACTION_TYPES, ShapeRule
from deltamirror.delta.validation.log_rules import LOG_RULES
from deltamirror.delta.validation.rules import RULES, Rule

INTRODUCTION = """\
# Actions

A commit is a list of actions. From Python they are values (`from deltamirror import Add`), which `tx.append`,
`tx.remove` and `tx.stage` take; on the command line, `deltamirror commit` takes one JSON object a line, with the names
of the Delta protocol: `{"add":{"path":…}}`. Fields that are not required are left out, or `None`. Integers have 64 bits
and a sign unless stated otherwise, times are milliseconds since 1970 in UTC, and partition values are texts as Delta
writes them: from Python, dates, times, numbers and booleans are accepted, too, and spelled so.

An action that breaks a rule is refused with an `InvalidAction` that names the rule, the field and what was found;
nothing is written then. Complete lines of another writer, committed verbatim (`tx.stage_lines`,
`deltamirror commit --verbatim --at-version N`), keep fields that are not listed here.
"""

LOG_RULES_INTRODUCTION = """\
# Rules of log files

`deltamirror validate` holds the files of a `_delta_log/` against these rules, and every line of its commits against
those of [actions](actions.md); see [validation](../guides/validation.md). An *error* keeps a reader out, or lets it
read something else than other readers do. With a *warning* readers cope, at the price of time or of old versions.
"""

LOG_RULE_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Lines": ("line", "shape"),
    "The log as a whole": ("log",),
    "Checkpoints": ("checkpoint", "sidecar"),
    "The pointer `_last_checkpoint`": ("pointer",),
    "Version checksums": ("checksum",),
    "Compactions": ("compaction",),
}
"""The sections of the page, with what the ids of their rules begin with."""

PARTS: Mapping[str, type[msgspec.Struct]] = {"deletionVector": DeletionVector, "format": Format}
"""Structs inside of actions, with the field that holds them."""

_COMMON = {
    "path": "the file: a URI reference, percent-encoded, relative to the table's location, or absolute",
    "partitionValues": "the value of each partition column, by physical name; null where there is none",
    "size": "length of the file in bytes",
    "dataChange": "whether the rows of the table change; false for a rewrite, such as a compaction",
    "stats": "statistics, as the text of a JSON object: `numRecords`, `minValues`, `maxValues`, `nullCount`",
    "tags": "labels of other tools, carried as they are",
    "deletionVector": "which rows of the file are deleted",
    "baseRowId": "row id of the first row; assigned at commit where the table tracks rows",
    "defaultRowCommitVersion": "version that added the rows; assigned at commit where the table tracks rows",
    "modificationTime": "when the file was written",
}
MEANINGS: Mapping[str, Mapping[str, str]] = {
    "add": {"clusteringProvider": "who clustered the file"},
    "remove": {
        "deletionTimestamp": "when the file was removed; filled in where absent",
        "extendedFileMetadata": "whether partition values, size and tags are given",
        "baseRowId": "as the add has it",
        "defaultRowCommitVersion": "as the add has it",
    },
    "cdc": {"dataChange": "always false: change data repeats changes, and is none"},
    "metaData": {
        "id": "a UUID that stays with the table",
        "name": "a name for people",
        "description": "a text for people",
        "format": "encoding of the data files",
        "schemaString": "the schema, as the text of its JSON; absent in imported logs only",
        "partitionColumns": "names of the columns that the table is partitioned by, in order",
        "configuration": "table properties, as texts",
        "createdTime": "when the table was created",
    },
    "protocol": {
        "minReaderVersion": "1 to 3; at 3, `readerFeatures` say what readers need",
        "minWriterVersion": "1 to 7; at 7, `writerFeatures` say what writers need",
        "readerFeatures": "features that readers have to know",
        "writerFeatures": "features that writers have to know; those of readers among them",
    },
    "txn": {
        "appId": "name of the application",
        "version": "its progress: at or below its latest version, the commit is already applied",
        "lastUpdated": "when it was recorded; filled in where absent",
    },
    "domainMetadata": {
        "domain": "name of the domain; those below `delta.` belong to Delta",
        "configuration": "any text, mostly JSON",
        "removed": "true makes it a tombstone",
    },
    "commitInfo": {
        "version": "version of the commit, where a writer notes it",
        "inCommitTimestamp": "time of the commit, where the table has in-commit timestamps",
        "timestamp": "time of the commit, as the writer saw it",
        "userId": "who committed",
        "userName": "who committed, by name",
        "operation": "what was done: `WRITE`, `DELETE`, …",
        "operationParameters": "with which parameters; each is raw JSON",
        "job": "job of the committing platform",
        "notebook": "notebook of the committing platform",
        "clusterId": "cluster of the committing platform",
        "readVersion": "version that the commit was computed from",
        "isolationLevel": "isolation at which conflicts were checked",
        "isBlindAppend": "whether it added files without reading any",
        "operationMetrics": "counts of what was done, as texts",
        "userMetadata": "a text of the user",
        "engineInfo": "which software committed",
        "txnId": "id of the transaction, unique",
    },
    "deletionVector": {
        "storageType": "`u`: a file of the table, named by a UUID; `p`: a file, by its path; `i`: inline",
        "pathOrInlineDv": "the encoded UUID with its prefix, the absolute path, or the encoded bitmap",
        "offset": "position of the bitmap in the file; none where it is inline",
        "sizeInBytes": "length of the bitmap in bytes",
        "cardinality": "how many rows are deleted",
    },
    "format": {"provider": "`parquet`", "options": "options of the provider: none"},
}
ONLY_IN_CHECKPOINTS = ("checkpointMetadata", "sidecar")
_LONG = 2**63 - 1


def actions_page() -> str:
    """The whole page."""
    authored = [name for name in ACTION_TYPES if name not in ONLY_IN_CHECKPOINTS]
    sections = [action_section(name) for name in authored]
    parts = [fields_section(name, struct) for name, struct in PARTS.items()]
    return "\n".join([INTRODUCTION, *sections, *parts, others_section()])


def log_rules_page() -> str:
    """The rules of log files, by the kind of file."""
    sections = [log_rules_section(title, kinds) for title, kinds in LOG_RULE_SECTIONS.items()]
    return "\n".join([LOG_RULES_INTRODUCTION, *sections])


def log_rules_section(title: str, kinds: tuple[str, ...]) -> str:
    """The rules of some kinds of files."""
    rules = [rule for rule in LOG_RULES.values() if rule.id.partition(".")[0] in kinds]
    rows = [f"| `{rule.id}` | {rule.severity} | {cell(rule.text)} | {cell(rule.remedy)} |" for rule in rules]
    return "\n".join(
        [f"## {title}", "", "| Rule | Severity | It demands | What to do |", "|---|---|---|---|", *rows, ""]
    )


def action_section(name: str) -> str:
    """Fields and rules of one action."""
    return "\n".join([fields_section(name, ACTION_TYPES[name]), *rules_table(rules_of(name))])


def fields_section(name: str, struct: type[msgspec.Struct]) -> str:
    """The fields of a struct, in their order on the wire."""
    lines = [f"## {name}", "", described(struct), "", f"In Python: `{python_name(struct)}`.", ""]
    lines += ["| Field | In Python | Type | Required | Meaning |", "|---|---|---|---|---|"]
    for field, kind in zip(msgspec.structs.fields(struct), types_of(struct), strict=True):
        required = "yes" if field.required else "no"
        meaning = cell(meaning_of(name, field.encode_name))
        lines.append(f"| `{field.encode_name}` | `{field.name}` | {type_text(kind)} | {required} | {meaning} |")
    return "\n".join([*lines, ""])


def others_section() -> str:
    """Rules that do not belong to one action, and the actions of checkpoints."""
    whole = ["## A commit as a whole", "", *rules_table(rules_of("commit"))]
    shapes = ["## Lines", "", "What a line of JSON breaks before its meaning is looked at.", ""]
    shapes += ["| Rule | What to do |", "|---|---|", *(f"| `{rule}` | {cell(rule.remedy)} |" for rule in ShapeRule), ""]
    checkpoints = ["## Only in checkpoints", ""]
    checkpoints += rules_table([rule for name in ONLY_IN_CHECKPOINTS for rule in rules_of(name)])
    return "\n".join([*whole, *shapes, *checkpoints])


def rules_of(name: str) -> list[Rule]:
    """The rules of an action, or of commits."""
    return [rule for rule in RULES.values() if rule.id.partition(".")[0] == name]


def rules_table(rules: list[Rule]) -> list[str]:
    """Rules with what they demand and what to do; nothing where there are none."""
    rows = [f"| `{rule.id}` | {cell(rule.text)} | {cell(rule.remedy)} |" for rule in rules]
    return ["| Rule | It demands | What to do |", "|---|---|---|", *rows, ""] if rows else []


def meaning_of(action: str, field: str) -> str:
    """What a field means."""
    return MEANINGS.get(action, {}).get(field) or _COMMON[field]


def described(struct: type[msgspec.Struct]) -> str:
    """What an action is, from its docstring."""
    return " ".join((struct.__doc__ or "").replace("``", "`").split())


def python_name(struct: type[msgspec.Struct]) -> str:
    """Where a program finds a struct."""
    name = struct.__name__
    return f"deltamirror.{name}" if name in deltamirror.__all__ else f"{struct.__module__}.{name}"


def types_of(struct: type[msgspec.Struct]) -> Iterator[inspect.Type]:
    """The types of the fields, in their order."""
    info = inspect.type_info(struct)
    if isinstance(info, inspect.StructType):
        yield from (field.type for field in info.fields)


def type_text(kind: inspect.Type) -> str:
    """A type in words."""
    match kind:
        case inspect.UnionType(types=types):
            present = [type_text(each) for each in types if not isinstance(each, inspect.NoneType)]
            return " or ".join(present)
        case inspect.IntType(ge=least, le=most):
            wide = most is None or most >= _LONG
            return "integer" if wide else f"integer, {least} to {most}"
        case inspect.DictType(value_type=value):
            nulls = isinstance(value, inspect.UnionType) and value.includes_none
            return f"map from text to {type_text(value)}{' or null' if nulls else ''}"
        case inspect.ListType(item_type=item):
            return f"list of {type_text(item)}"
        case inspect.StructType(cls=cls):
            return next(f"[{name}](#{name.lower()})" for name, struct in PARTS.items() if struct is cls)
        case _:
            return _WORDS[type(kind)]


_WORDS: Mapping[type[inspect.Type], str] = {
    inspect.StrType: "text",
    inspect.BoolType: "true or false",
    inspect.RawType: "JSON",
    inspect.AnyType: "JSON",
    inspect.CustomType: "JSON",
    inspect.NoneType: "null",
}


def cell(text: str) -> str:
    """A text as a cell of a table."""
    return text.replace("|", "\\|")
