"""Every rule that an action can break: a stable id, what it demands, and what to do about it.

An id begins with the name of the action on the wire, or with ``commit`` where actions clash.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from deltamirror.delta.bounds import DEEPEST_JSON
from deltamirror.errors import InvalidAction

_LONGEST_FOUND = 200


class RuleSeverity(StrEnum):
    """What becomes of readers where a rule is broken."""

    ERROR = "error"
    """A reader fails, or reads something else than other readers do."""
    WARNING = "warning"
    """Readers cope, at the price of time or of old versions."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What an action, or a file of the log, has to meet, and the remedy where it does not."""

    id: str
    text: str
    remedy: str
    severity: RuleSeverity = RuleSeverity.ERROR


_PATHS = {
    "path.empty": ("a path is not empty", "name the data file, relative to the table's location"),
    "path.absolute-windows": (
        "a path is no path of Windows",
        "name the file relative to the table, or as file:///C:/…",
    ),
    "path.backslash": ("a path has no backslash", "separate folders by '/'; in a name, write %5C"),
    "path.raw-character": ("a path is percent-encoded like a URI", "encode spaces and reserved characters: 'a%20b'"),
    "path.bad-escape": ("a percent sign begins an escape of two hexadecimal digits", "write a percent sign as %25"),
    "path.parent": ("a path has no '..', not as %2E%2E either", "name the file without a detour"),
    "path.home": (
        "a relative path does not begin with '~', which delta-rs takes for a home folder",
        "choose another name for the folder",
    ),
    "path.point": ("no name in a path is a single point", "leave './' out"),
    "path.empty-name": (
        "no name in a path is empty: it has no '//', and no '/' at its end",
        "separate names by one '/'",
    ),
    "path.colon": (
        "a relative path has no ':' in its first name, which would be a scheme, and no file has one in its name",
        "write %3A in the name of a folder, and choose another name for the file",
    ),
    "path.not-text": (
        "a decoded path is UTF-8 text without control characters",
        "rename the file: readers would look for different ones",
    ),
    "path.log": ("no data file is below _delta_log/", "put it beside the log: cleanup may delete it there"),
    "path.long": ("a decoded path has at most 4096 bytes", "choose a shorter name"),
}
_NEW_PATHS = {
    "path.absolute": (
        "a path is relative to the table: delta-rs and DuckDB look for an absolute one below it",
        "put the file below the table's location; lines of Delta Spark with absolute paths can be committed verbatim",
    ),
    "path.spelling": (
        "a path has the spelling of Delta Spark: in another one it would be a second file",
        "escape what a URI has to, and ':', in capital letters: 'day=1/a%20é%3A.parquet' for 'day=1/a é:.parquet'",
    ),
}
_SIZES = {"size.negative": ("a size is a number of bytes, at least 0", "give the length of the file")}
_PARTITIONS = {
    "partition.unknown": (
        "partition values are those of the table's partition columns, by physical name",
        "leave out columns that the table is not partitioned by",
    ),
}
_PARTITION_VALUES = {
    "partition.value": (
        "a partition value is null or a value of its column's type, in a spelling that every reader takes",
        "write it as Delta Spark does: 2024-01-31, 17, true, 1.50 (at its scale), 2024-01-31T00:00:00.000000Z",
    ),
    "partition.missing": (
        "every partition column has a value, or null",
        "add the missing column, with null if it has none",
    ),
    "partition.null": (
        "a partition column that is NOT NULL has a value, and the empty text is null",
        "give the value, or drop NOT NULL from the column",
    ),
}
_NEW_PARTITION_VALUES = {
    "partition.negative-fraction": (
        "a decimal partition value is not a negative fraction: delta-rs opens no such table as Arrow or pandas data",
        "partition by another column; lines of Delta Spark with such values can be committed verbatim",
    ),
}
_STATS_OF_ADDS = {
    "stats.date": (
        "a date in minValues or maxValues is of the years 1 to 9999: at another one, delta-rs opens no such table as "
        "Arrow or pandas data",
        "leave this bound out; lines of Delta Spark with such dates can be committed verbatim",
    ),
    "stats.type": (
        "statistics fit their columns: where one does not, delta-rs fails for the whole table",
        "give minValues, maxValues, nullCount and structs as objects, integers within the range of their column, "
        "numbers for numbers, true or false for booleans",
    ),
}
_STATS = {
    "stats.json": ("stats is the text of a JSON object", "give statistics as one JSON text, not as an object"),
    "stats.depth": (
        f"stats has at most {DEEPEST_JSON} levels of objects and arrays",
        "give statistics of the table's columns only",
    ),
    "stats.repeated-key": (
        "no object in stats has a key twice: some readers take the first value, others the last",
        "give each key once",
    ),
    "stats.num-records": ("numRecords is an integer from 0 to 2^40", "give the number of rows in the file"),
}
_VECTORS = {
    "deletion-vector.feature": (
        "deletion vectors need the table feature deletionVectors",
        "upgrade the protocol first",
    ),
    "deletion-vector.storage-type": ("a deletion vector is stored as u, i or p", "use u for a file of the table"),
    "deletion-vector.path": (
        "a deletion vector's place fits its storage type",
        "u: folder and 20 characters of the UUID in Z85; i: the bitmap of sizeInBytes in Z85; p: an absolute URI",
    ),
    "deletion-vector.offset": (
        "an inline deletion vector has no offset, any other one of at least 0",
        "give the position in the file, 1 for the first one",
    ),
    "deletion-vector.size": ("a deletion vector has a size above 0", "give the length of the bitmap in bytes"),
    "deletion-vector.cardinality": ("a deletion vector deletes 0 rows or more", "give the number of deleted rows"),
}
_ROW_IDS = {
    "row-ids.feature": ("row ids need the table feature rowTracking", "leave them out, or upgrade the protocol first"),
    "row-ids.negative": ("row ids and commit versions are at least 0", "leave them out: they are assigned at commit"),
    "row-ids.range": (
        "the row ids of a file fit into 64 bits",
        "leave baseRowId out, or repeat that of the file that is added again",
    ),
}
_OF_FILES: Mapping[str, tuple[Mapping[str, tuple[str, str]], ...]] = {
    "add": (
        *(_PATHS, _NEW_PATHS, _SIZES, _PARTITIONS, _PARTITION_VALUES, _NEW_PARTITION_VALUES),
        *(_STATS, _STATS_OF_ADDS, _VECTORS, _ROW_IDS),
    ),
    "remove": (_PATHS, _SIZES, _PARTITIONS, _STATS, _VECTORS, _ROW_IDS),
    "cdc": (_PATHS, _NEW_PATHS, _SIZES, _PARTITIONS, _PARTITION_VALUES),
}

_OTHERS = (
    Rule(
        "commit.type",
        "every field has a value of its type",
        "docs/reference/actions.md lists the fields of each action",
    ),
    Rule("commit.metadata-twice", "a commit has at most one metaData", "merge them into one"),
    Rule("commit.protocol-twice", "a commit has at most one protocol", "merge them into one"),
    Rule(
        "commit.app-id-twice", "a commit has at most one txn of an application", "keep the one with the latest version"
    ),
    Rule("commit.domain-twice", "a commit has at most one domainMetadata of a domain", "keep the last one"),
    Rule("commit.add-twice", "a commit adds a path at most once", "keep one add for each file"),
    Rule("commit.remove-twice", "a commit removes a path at most once", "keep one remove for each file"),
    Rule(
        "commit.added-and-removed",
        "a commit does not both add and remove a file with the same deletion vector",
        "leave out both, or re-add the file without removing it",
    ),
    Rule("commitInfo.authored", "we write commitInfo ourselves", "leave it out, or commit the lines verbatim"),
    Rule("commitInfo.twice", "a commit has at most one commitInfo", "keep one"),
    Rule("commitInfo.first", "commitInfo comes first where commits carry their time", "move it to the first line"),
    Rule(
        "commitInfo.in-commit-timestamp",
        "commitInfo has an inCommitTimestamp where commits carry their time",
        "commit through a writer that knows the feature inCommitTimestamp",
    ),
    Rule(
        "commitInfo.in-commit-timestamp.range",
        "an inCommitTimestamp is before the year 10000",
        "give milliseconds since 1970; no commit could follow after a later time",
    ),
    Rule("checkpointMetadata.in-commit", "checkpointMetadata belongs into checkpoints only", "leave it out"),
    Rule("sidecar.in-commit", "sidecar belongs into checkpoints only", "leave it out"),
    Rule("add.modification-time.negative", "a time is in milliseconds since 1970, at least 0", "give the file's time"),
    Rule(
        "add.modification-time.seconds",
        "modificationTime is in milliseconds: this one is before 1971, and looks like seconds",
        "multiply it by 1000",
    ),
    Rule(
        "add.deletion-vector.num-records",
        "a file with a deletion vector has numRecords in its stats",
        "give the number of rows in the file, deleted ones included",
    ),
    Rule(
        "add.deletion-vector.exceeds-records",
        "a deletion vector deletes no more rows than the file has",
        "numRecords counts the rows in the file, deleted ones included",
    ),
    Rule(
        "add.deletion-vector.address",
        "a deletion vector of type p has an address that readers open",
        "give file:///…, s3://…, s3a://…, gs://…, abfs://… or abfss://…; or use u for a file of the table",
    ),
    Rule(
        "add.deletion-vector.bitmap",
        "an inline deletion vector is a bitmap that readers decode",
        "give a RoaringBitmapArray in the portable format, of sizeInBytes, with numbers that ascend",
    ),
    Rule(
        "add.deletion-vector.counts",
        "an inline deletion vector states as many rows as its bitmap has",
        "give the number of deleted rows as cardinality",
    ),
    Rule("add.clustering.feature", "clusteringProvider needs the table feature clustering", "leave it out"),
    Rule(
        "add.iceberg.num-records", "Iceberg compatibility needs numRecords in every add", "give stats with numRecords"
    ),
    Rule(
        "add.rows-unchecked",
        "the table makes demands on rows that the log cannot show",
        "let an engine check the rows that it writes, and say so: rows_checked=True, or --rows-checked",
    ),
    Rule("remove.deletion-timestamp.missing", "a remove has the time of the deletion", "give deletionTimestamp"),
    Rule("remove.deletion-timestamp.negative", "a time is in milliseconds since 1970, at least 0", "give the time"),
    Rule(
        "remove.append-only",
        "no rows are deleted from a table with delta.appendOnly",
        "set delta.appendOnly to false first; a rewrite without change of data has dataChange false",
    ),
    Rule("cdc.feature", "change data needs delta.enableChangeDataFeed", "leave it out, or enable the feed first"),
    Rule("cdc.data-change", "the dataChange of change data is false", "set it to false"),
    Rule("txn.app-id.empty", "an application has a name", "give appId"),
    Rule("txn.version.negative", "the version of an application is at least 0", "give the progress of the application"),
    Rule(
        "txn.last-updated.negative", "a time is in milliseconds since 1970, at least 0", "leave it out: we fill it in"
    ),
    Rule("domainMetadata.feature", "domains need the table feature domainMetadata", "upgrade the protocol first"),
    Rule("domainMetadata.name.empty", "a domain has a name", "give the domain"),
    Rule("domainMetadata.system", "domains below 'delta.' belong to the writer", "choose a name outside of 'delta.'"),
    Rule("protocol.version", "reader versions are 1 to 3, writer versions 1 to 7", "use versions that exist"),
    Rule(
        "protocol.reader-list",
        "readerFeatures is there if, and only if, the reader version is 3",
        "give it at version 3 only",
    ),
    Rule(
        "protocol.writer-list",
        "writerFeatures is there if, and only if, the writer version is 7",
        "give it at version 7 only",
    ),
    Rule("protocol.writer-behind-reader", "reader version 3 needs writer version 7", "raise the writer version to 7"),
    Rule("protocol.feature-twice", "a feature is listed once", "remove the second one"),
    Rule("protocol.reader-subset", "every reader feature is a writer feature, too", "list it in writerFeatures, too"),
    Rule(
        "protocol.reader-unlisted",
        "a feature that binds readers is in both lists where the reader version is 3, and in none below",
        "list it in readerFeatures, too",
    ),
    Rule("protocol.dependency", "a feature comes with those that it depends on", "list these, too"),
    Rule(
        "protocol.unsupported",
        "every feature is one that we support",
        "leave the table to an engine that does",
        RuleSeverity.WARNING,
    ),
    Rule("protocol.downgrade", "a protocol keeps all features of the table but the fence", "name these, too"),
    Rule("metaData.id.empty", "a table has an id", "give a UUID"),
    Rule("metaData.format", "data files are Parquet", "set the format's provider to parquet"),
    Rule(
        "metaData.schema.repeated-key",
        "no object in schemaString has a key twice: some readers take the first value, others the last",
        "give each key once",
    ),
    Rule(
        "metaData.schema.depth",
        f"schemaString has at most {DEEPEST_JSON} levels of objects and arrays: the Delta kernel reads no more",
        "nest columns less deeply: 42 structs inside of each other are possible",
    ),
    Rule(
        "metaData.schema.missing",
        "a metaData has its schema: without one, only Delta Spark reads the table",
        "give schemaString; a log that has such a line already can be imported",
    ),
    Rule("metaData.schema.empty", "a table has a column: no reader reads one without", "give the columns"),
    Rule("metaData.schema", "the schema is one that Delta can hold", "correct the column that is named"),
    Rule("metaData.created-time.negative", "a time is in milliseconds since 1970, at least 0", "give the time"),
    Rule("metaData.partition.unknown", "a partition column is a column of the schema", "use the schema's spelling"),
    Rule("metaData.partition.nested", "a partition column is not inside another column", "partition by a top column"),
    Rule("metaData.partition.twice", "a partition column is named once", "remove the second one"),
    Rule(
        "metaData.partition.type", "a partition column is no struct, array, map, variant or void", "use another column"
    ),
    Rule("metaData.partition.all", "a table has a column that it is not partitioned by", "partition by fewer columns"),
    Rule(
        "metaData.configuration.protocol",
        "the configuration has no words about the protocol",
        "name features in the protocol, not in the configuration",
    ),
    Rule("metaData.configuration.value", "a property that Delta defines has a value of its kind", "correct the value"),
    Rule(
        "metaData.change-data-columns",
        "a table with a change data feed has no column with a name of the feed's own: _change_type, _commit_version, "
        "_commit_timestamp",
        "give the column another name, or set delta.enableChangeDataFeed to false",
    ),
    Rule(
        "metaData.column-metadata",
        "the metadata of a column has the values that Delta Spark reads there",
        "correct the value, or leave the key out",
    ),
    Rule(
        "metaData.sql",
        "the SQL of a constraint, a generated column or a default is an expression: without one that Delta Spark can "
        "parse it does not read the table",
        "try it there first: select the expression from the table",
    ),
    Rule(
        "metaData.column-mapping.off",
        "columns have ids and physical names under column mapping only",
        "leave delta.columnMapping.id and physicalName out, or set delta.columnMapping.mode to name",
    ),
    Rule("metaData.column-mapping.id", "under column mapping, columns have unique ids above 0", "number the columns"),
    Rule(
        "metaData.column-mapping.physical-name",
        "under column mapping, columns have unique physical names",
        "give each column a physical name, and keep it for ever",
    ),
    Rule(
        "metaData.column-mapping.max-id",
        "delta.columnMapping.maxColumnId is at least the largest column id",
        "raise it together with the ids",
    ),
    Rule(
        "metaData.in-commit-timestamp",
        "the version and the time of the enablement of in-commit timestamps come together",
        "set both properties or none",
    ),
    Rule(
        "metaData.in-commit-timestamp.enablement",
        "metaData says since which version and time in-commit timestamps hold: those of the commit that enables them, "
        "and later ones repeat it",
        "read the table again, and let the writer compute the commit anew for the version that it becomes",
    ),
    Rule("metaData.row-tracking", "row tracking is not both enabled and suspended", "unset one of the two properties"),
    Rule(
        "metaData.row-tracking.materialized",
        "row tracking has names for the two columns that keep ids and versions through rewrites",
        "set both delta.rowTracking.materialized… properties",
    ),
    Rule("metaData.features", "the protocol has the features that the metadata uses", "upgrade the protocol as well"),
)

_CHANGES = (
    Rule(
        "add.path.live-twice",
        "a path is in the table once, whatever its deletion vector",
        "remove the file as it is in the table, with its deletion vector, in the same commit; or leave the add out",
    ),
    Rule(
        "add.row-ids.others",
        "a file states the row ids that the table gave to it before, and no others",
        "leave baseRowId out: ids are assigned at commit; a file that is added again repeats its own",
    ),
    Rule("metaData.change.id", "a table with files keeps its id", "keep the id; for another table, create one"),
    Rule(
        "metaData.change.partitioning",
        "a table with files keeps its partition columns, in their order",
        "overwrite the table: remove every file and add the rewritten ones in the same commit",
    ),
    Rule(
        "metaData.change.missing-column",
        "a table with files keeps its columns and their spelling, unless it maps columns",
        "set delta.columnMapping.mode to name first; then rename or drop the column, keeping ids and physical names",
    ),
    Rule(
        "metaData.change.dependent-column",
        "a column that a constraint or a generated column names keeps its name and its type",
        "drop the constraint, or state it anew in the same commit",
    ),
    Rule(
        "metaData.change.type",
        "a table with files keeps the types of its columns, but for widenings that it records",
        "add a column of the other type, or overwrite the table; to widen a type, set delta.enableTypeWidening and "
        "record the change in the field's delta.typeChanges",
    ),
    Rule(
        "metaData.change.nullability",
        "in a table with files, nullable fields stay nullable",
        "leave it nullable and add a CHECK constraint, or overwrite the table",
    ),
    Rule(
        "metaData.change.added-not-null",
        "a column that is added to a table with files is nullable, and so are the fields inside of it",
        "add it without NOT NULL: the rows that are there have no value for it",
    ),
    Rule(
        "metaData.change.map-fields",
        "in a table with files, a struct inside of a map keeps its fields: not every reader can add or drop them there",
        "add a column beside the map, or overwrite the table",
    ),
    Rule(
        "metaData.change.struct-fields",
        "in a table with files, a struct keeps a field that each of them has: not every reader finds it otherwise",
        "keep one of the fields, drop the whole struct, or overwrite the table first",
    ),
    Rule(
        "metaData.change.default",
        "a column of a table with files gets no default for the rows that are there: readers would disagree about them",
        "leave EXISTS_DEFAULT out; CURRENT_DEFAULT alone is for rows to come",
    ),
    Rule(
        "metaData.change.mapping-mode",
        "in a table with files, delta.columnMapping.mode goes from none to name, and no other way",
        "keep the mode, or overwrite the table",
    ),
    Rule(
        "metaData.change.physical-name",
        "columns of a table with files keep their physical names: by them they are found in the files",
        "keep delta.columnMapping.physicalName; where mapping begins, it is the name that the column has",
    ),
    Rule(
        "metaData.change.column-id",
        "columns keep their ids, and a column that is added has one above delta.columnMapping.maxColumnId",
        "keep delta.columnMapping.id; number added columns from maxColumnId on",
    ),
    Rule(
        "metaData.change.max-column-id",
        "delta.columnMapping.maxColumnId does not fall: ids are never used twice",
        "keep the property, and raise it for columns that are added",
    ),
    Rule(
        "metaData.change.row-tracking",
        "row tracking is enabled once every file has row ids",
        "enable the feature rowTracking, add the files again (they get ids), and set the property then; "
        "or set it when the table is created",
    ),
    Rule(
        "metaData.change.rows-unchecked",
        "the change makes demands on rows, which those in the table's files were not checked against",
        "check them with a query engine, and say so: rows_checked=True, or --rows-checked",
    ),
)


def _file_rules() -> Iterator[Rule]:
    for action, groups in _OF_FILES.items():
        for group in groups:
            yield from (Rule(f"{action}.{name}", text, remedy) for name, (text, remedy) in group.items())


RULES: Mapping[str, Rule] = {rule.id: rule for rule in (*_file_rules(), *_OTHERS, *_CHANGES)}


def violation(rule: str, *, action: str, index: int | None, field: str, found: object) -> InvalidAction:
    """The error for an action that breaks a rule: it names action, field, rule, and what was found."""
    broken = RULES[rule]
    text = "nothing" if found is None else found if isinstance(found, str) else repr(found)
    text = text if len(text) <= _LONGEST_FOUND else text[: _LONGEST_FOUND - 1] + "…"
    place = action if index is None else f"action {index + 1} ({action})"
    where = f"{place}, {field}" if field else place
    return InvalidAction(
        f"{where}: {broken.text}; found {text!r}",
        hint=broken.remedy,
        rule=rule,
        action=action,
        index=index,
        field=field,
        found=text,
    )
