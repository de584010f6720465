"""The rules that a table's protocol and metadata set for single actions, made once and applied to many.

``TableRules.check`` is on the road of bulk commits: an ``add`` that is in order costs one to two
microseconds. Whatever looks odd goes to the slow road, which finds the rule that is broken.

A *verbatim* commit was made by another writer, who may lawfully

- write commitInfo, domains below ``delta.``, and rows that it checked itself;
- leave out ``deletionTimestamp``, as the protocol allows;
- drop features from the protocol, and leave out writer features that only the reference writer asks for;
- set properties to values that its own version knows;
- keep row ids of a feature that the table does not have (older type widening does);
- name files outside of the table by absolute paths, as a shallow clone does; escape a path otherwise;
- spell partition values in any way that every reader takes.

Everything else holds for both kinds of commits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from deltamirror.delta.actions import (
    Action,
    Add,
    Cdc,
    CheckpointMetadata,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Sidecar,
    Txn,
)
from deltamirror.delta.bounds import nests_too_deeply
from deltamirror.delta.definition import clustering_domain
from deltamirror.delta.features import row_duties, writer_features_of
from deltamirror.delta.keys import repeated_key
from deltamirror.delta.lines import wire_name
from deltamirror.delta.paths import canonical_path
from deltamirror.delta.properties import append_only, change_data_feed, column_mapping_mode, in_commit_timestamps
from deltamirror.delta.rowtracking import MOST_RECORDS, MOST_ROW_ID, high_water_mark
from deltamirror.delta.schema import Field, StructType, parse_schema
from deltamirror.delta.shapes import unencodable
from deltamirror.delta.timestamps import LAST_TIMESTAMP
from deltamirror.delta.validation.metadata import check_metadata
from deltamirror.delta.validation.paths import broken_path_rule, is_plain_path
from deltamirror.delta.validation.protocol import check_protocol
from deltamirror.delta.validation.rules import violation
from deltamirror.delta.validation.statistics import Stats, StatsRules, stats_rules
from deltamirror.delta.validation.values import PartitionColumn
from deltamirror.delta.validation.vectors import BrokenVector, broken_vector_rule, unread_vector_rule
from deltamirror.errors import InvalidAction

_decode_stats = msgspec.json.Decoder(Stats).decode
LARGEST = 2**63 - 1
"""The largest integer of the log."""

FIRST_SECONDS, FIRST_MILLISECONDS = 100_000_000, 31_536_000_000
"""From the one to the other, a number is taken for a time in seconds, after 1973: in milliseconds it was in 1970."""
_File = Add | Remove | Cdc


@dataclass(frozen=True, slots=True)
class TableRules:
    """What single actions have to meet in one table. Immutable: worth keeping for as long as the metadata lasts."""

    protocol: Protocol
    metadata: Metadata
    features: frozenset[str]
    partitions: Mapping[str, PartitionColumn]
    left_partitions: Mapping[str, PartitionColumn]
    """Those before the commit: a file that it removes has values of these, where it changes the partitioning."""
    duties: tuple[str, ...]
    stats: StatsRules
    stats_needed: bool
    verbatim: bool
    system_domains: frozenset[str]

    @classmethod
    def of(
        cls,
        protocol: Protocol,
        metadata: Metadata,
        *,
        verbatim: bool = False,
        rows_checked: bool = False,
        system_domains: Iterable[str] = (),
        previous: Metadata | None = None,
    ) -> "TableRules":
        """The rules under the protocol and metadata in force after the commit, its own included.

        ``previous`` is the metadata before a commit that changes it. ``rows_checked`` asserts that the engine which
        wrote the files met the demands that the table makes on rows; ``system_domains`` are the domains below
        ``delta.`` that the commit may set. Any commit may end the clustering of a table.
        """
        schema = parse_schema(metadata.schema_string)
        return cls(
            protocol=protocol,
            metadata=metadata,
            features=writer_features_of(protocol),
            partitions=_partitions(schema, metadata),
            left_partitions={} if previous is None else _partitions(parse_schema(previous.schema_string), previous),
            duties=() if verbatim or rows_checked else tuple(row_duties(metadata, schema).values()),
            stats=stats_rules(
                metadata.schema_string,
                mapped=column_mapping_mode(metadata) != "none",
                partition_by=tuple(metadata.partition_columns),
            ),
            stats_needed=_needs_stats(metadata),
            verbatim=verbatim,
            system_domains=frozenset(system_domains),
        )

    def check(self, action: Action, index: int | None = None) -> None:
        """Raise InvalidAction, naming ``index``, unless the action is in order on its own."""
        self.admit(action, index)

    def admit(self, action: Action, index: int | None = None) -> Action:
        """The action as it is written: partition values that we author are in the reference writer's spelling.

        Raise InvalidAction, naming ``index``, unless it is in order on its own.
        """
        if type(action) is Add and self._is_plain(action):
            return action
        _check_types(action, index)
        try:
            action = self._respelled(action)
            self._check_slowly(action, index)
        except UnicodeEncodeError as error:
            raise unencodable(wire_name(action), error) from None
        return action

    def _is_plain(self, add: Add) -> bool:
        """Whether all is surely well: cheap tests, written out because a million adds run through them."""
        path, size, time, stats = add.path, add.size, add.modification_time, add.stats
        if (
            self.duties
            or add.deletion_vector is not None
            or add.tags is not None
            or add.base_row_id is not None
            or add.default_row_commit_version is not None
            or add.clustering_provider is not None
            or type(size) is not int
            or not 0 <= size <= LARGEST
            or type(time) is not int
            or not 0 <= time <= LARGEST
            or FIRST_SECONDS <= time < FIRST_MILLISECONDS
            or type(add.data_change) is not bool  # type: ignore[redundant-expr]  # a struct made in Python may lie
            or type(path) is not str
            or not (is_plain_path(path) or broken_path_rule(path) is None)
        ):
            return False
        if stats is not None or self.stats_needed:
            try:
                if type(stats) is not str or (self.stats.decode(stats).num_records is None and self.stats_needed):
                    return False
                if nests_too_deeply(stats) or repeated_key(stats) is not None:
                    return False
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                return False
        return self.are_plain_values(add.partition_values)

    def are_plain_values(self, values: object) -> bool:
        """Whether these are surely the partition values of an add."""
        if type(values) is not dict or len(values) != len(self.partitions):
            return False
        for name, column in self.partitions.items():  # noqa: SIM110 - a generator would cost more than the tests
            if not column.is_plain(values.get(name, 0)):
                return False
        return True

    def _respelled(self, action: Action) -> Action:
        """An add or a cdc of ours with the reference writer's partition values; a remove repeats those of its file."""
        if self.verbatim or not isinstance(action, Add | Cdc):
            return action
        restates = _restates(action)
        values = {
            name: self.partitions[name].respelled(text, restates=restates) if name in self.partitions else text
            for name, text in action.partition_values.items()
        }
        return action if values == action.partition_values else replace(action, partition_values=values)

    def _check_slowly(self, action: Action, index: int | None) -> None:
        match action:
            case Add():
                self._check_add(action, index)
            case Remove():
                self._check_remove(action, index)
            case Cdc():
                self._check_cdc(action, index)
            case Txn():
                _check_txn(action, index)
            case DomainMetadata():
                self._check_domain(action, index)
            case Metadata():
                check_metadata(action, self.protocol, index, verbatim=self.verbatim)
            case Protocol():
                check_protocol(action, index)
            case CommitInfo():
                self._check_commit_info(action, index)
            case CheckpointMetadata() | Sidecar():
                name = wire_name(action)
                raise violation(f"{name}.in-commit", action=name, index=index, field="", found=name)

    def _check_add(self, add: Add, index: int | None) -> None:
        self._check_place(add, index)
        self._check_partitions(add, add.partition_values, index)
        self._check_modification_time(add, index)
        records = _num_records(add, add.stats, index)
        if add.stats is not None and (misfit := self.stats.misfit(add.stats)) is not None:
            raise _broken("stats.type", add, index, "stats", misfit)
        if add.stats is not None and not (self.verbatim or _restates(add)):
            self._check_dates(add, add.stats, index)
        self._check_row_ids(add, index)
        self._check_vector(add, add.deletion_vector, index)
        if add.deletion_vector is not None:
            _check_cardinality(add, add.deletion_vector, records, index)
        if add.clustering_provider is not None and "clustering" not in self.features:
            raise _broken("clustering.feature", add, index, "clusteringProvider", add.clustering_provider)
        if self.stats_needed and records is None:
            raise _broken("iceberg.num-records", add, index, "stats", add.stats)
        if self.duties and add.data_change:
            raise _broken("rows-unchecked", add, index, "dataChange", "; ".join(self.duties))

    def _check_dates(self, add: Add, stats: str, index: int | None) -> None:
        if (unread := self.stats.unread_date(stats)) is not None:
            raise _broken("stats.date", add, index, "stats", unread)

    def _check_modification_time(self, add: Add, index: int | None) -> None:
        time = add.modification_time
        if time < 0:
            raise _broken("modification-time.negative", add, index, "modificationTime", time)
        if FIRST_SECONDS <= time < FIRST_MILLISECONDS and not self.verbatim:
            raise _broken("modification-time.seconds", add, index, "modificationTime", time)

    def _check_remove(self, remove: Remove, index: int | None) -> None:
        self._check_place(remove, index)
        # Another writer that partitions a table anew removes its files by the columns that it had.
        if not self.verbatim:
            self._check_partitions(remove, remove.partition_values or {}, index)
        self._check_deletion_time(remove, index)
        _num_records(remove, remove.stats, index)
        self._check_row_ids(remove, index)
        self._check_vector(remove, remove.deletion_vector, index)
        if remove.data_change and append_only(self.metadata):
            raise _broken("append-only", remove, index, "dataChange", True)

    def _check_deletion_time(self, remove: Remove, index: int | None) -> None:
        time = remove.deletion_timestamp
        if time is None and not self.verbatim:
            raise _broken("deletion-timestamp.missing", remove, index, "deletionTimestamp", None)
        if time is not None and time < 0:
            raise _broken("deletion-timestamp.negative", remove, index, "deletionTimestamp", time)

    def _check_cdc(self, cdc: Cdc, index: int | None) -> None:
        self._check_place(cdc, index)
        self._check_partitions(cdc, cdc.partition_values, index)
        if not change_data_feed(self.metadata):
            raise _broken("feature", cdc, index, "", cdc.path)
        if cdc.data_change:
            raise _broken("data-change", cdc, index, "dataChange", True)

    def _check_domain(self, domain: DomainMetadata, index: int | None) -> None:
        name = domain.domain
        if not name:
            raise _broken("name.empty", domain, index, "domain", name)
        if "domainMetadata" not in self.features:
            raise _broken("feature", domain, index, "domain", name)
        is_ours = self.verbatim or name in self.system_domains or domain == clustering_domain(())
        if name.startswith("delta.") and not is_ours:
            raise _broken("system", domain, index, "domain", name)
        high_water_mark({name: domain})  # which later commits have to read

    def _check_commit_info(self, info: CommitInfo, index: int | None) -> None:
        if not self.verbatim:
            raise _broken("authored", info, index, "", info.operation)
        if not in_commit_timestamps(self.metadata):
            return
        if index not in (None, 0):
            raise _broken("first", info, index, "", f"index {index}")
        if info.in_commit_timestamp is None:
            raise _broken("in-commit-timestamp", info, index, "inCommitTimestamp", None)
        if info.in_commit_timestamp > LAST_TIMESTAMP:
            raise _broken("in-commit-timestamp.range", info, index, "inCommitTimestamp", info.in_commit_timestamp)

    def _check_place(self, action: _File, index: int | None) -> None:
        if rule := broken_path_rule(action.path, verbatim=self.verbatim or _restates(action)):
            instead = f" instead of {canonical_path(action.path)}" if rule == "path.spelling" else ""
            raise _broken(rule, action, index, "path", action.path + instead)
        if action.size is not None and action.size < 0:
            raise _broken("size.negative", action, index, "size", action.size)

    def _check_partitions(self, action: _File, values: Mapping[str, str | None], index: int | None) -> None:
        exact = not (self.verbatim or _restates(action))
        for name, value in values.items():
            if name not in self.partitions and not (isinstance(action, Remove) and name in self.left_partitions):
                raise _broken("partition.unknown", action, index, "partitionValues", name)
            # Readers do not parse the values of a remove, and it has to repeat those of its file.
            if value and not isinstance(action, Remove):
                self._check_value(action, name, value, index, exact=exact)
        if not isinstance(action, Remove):  # which leaves out null values, and may leave out all of them
            self._check_presence(action, values, index)

    def _check_value(self, action: Add | Cdc, name: str, value: str, index: int | None, *, exact: bool) -> None:
        column, field = self.partitions[name], f"partitionValues.{name}"
        if not column.is_readable(value, exact=exact):
            raise _broken("partition.value", action, index, field, value)
        if exact and isinstance(action, Add) and column.has_negative_fraction(value):
            raise _broken("partition.negative-fraction", action, index, field, value)

    def _check_presence(self, action: Add | Cdc, values: Mapping[str, str | None], index: int | None) -> None:
        for name, column in self.partitions.items():
            if name not in values:
                raise _broken("partition.missing", action, index, "partitionValues", name)
            if not values[name] and not column.nullable:
                raise _broken("partition.null", action, index, f"partitionValues.{name}", values[name])

    def _check_row_ids(self, action: Add | Remove, index: int | None) -> None:
        ids = {"baseRowId": action.base_row_id, "defaultRowCommitVersion": action.default_row_commit_version}
        for field, value in ids.items():
            if value is not None and "rowTracking" not in self.features and not self.verbatim:
                raise _broken("row-ids.feature", action, index, field, value)
            if value is not None and value < 0:
                raise _broken("row-ids.negative", action, index, field, value)
        if action.base_row_id is not None and action.base_row_id > MOST_ROW_ID - MOST_RECORDS:
            raise _broken("row-ids.range", action, index, "baseRowId", action.base_row_id)

    def _check_vector(self, action: Add | Remove, vector: DeletionVector | None, index: int | None) -> None:
        if vector is None:
            return
        if "deletionVectors" not in self.features:
            raise _broken("deletion-vector.feature", action, index, "deletionVector", vector.unique_id)
        if broken := broken_vector_rule(vector):
            raise _broken_vector(broken, action, index)


def _restates(action: _File) -> bool:
    """Whether the file may be in the table already, so that its spelling has to be repeated."""
    if isinstance(action, Add):
        return action.deletion_vector is not None or not action.data_change
    return isinstance(action, Remove)


def _partitions(schema: StructType, metadata: Metadata) -> dict[str, PartitionColumn]:
    """The partition columns, by physical name."""
    mapped = column_mapping_mode(metadata) != "none"
    columns = [schema.get(name) or Field(name, StructType()) for name in metadata.partition_columns]
    return {each.physical_name if mapped else each.name: PartitionColumn.of(each) for each in columns}


def _needs_stats(metadata: Metadata) -> bool:
    flags = (metadata.configuration.get(f"delta.enableIcebergCompatV{edition}", "") for edition in (1, 2, 3))
    return any(flag.lower() == "true" for flag in flags)


def _broken_vector(broken: BrokenVector, action: Action, index: int | None) -> InvalidAction:
    return _broken(f"deletion-vector.{broken.rule}", action, index, f"deletionVector.{broken.field}", broken.found)


def _broken(rule: str, action: Action, index: int | None, field: str, found: object) -> InvalidAction:
    name = wire_name(action)
    return violation(f"{name}.{rule}", action=name, index=index, field=field, found=found)


def _check_types(action: Action, index: int | None) -> None:
    """Structs made in Python have not been through a decoder, which is what checks types."""
    if isinstance(action, CommitInfo):
        return
    try:
        msgspec.convert(msgspec.to_builtins(action, builtin_types=(bytes,)), type(action))
    except (msgspec.MsgspecError, TypeError) as error:
        name, text = wire_name(action), str(error)
        field = text.rpartition("`$.")[2].rstrip("`") if "`$." in text else ""
        raise violation("commit.type", action=name, index=index, field=field, found=text) from error


def _num_records(action: Add | Remove, stats: str | None, index: int | None) -> int | None:
    if stats is None:
        return None
    if nests_too_deeply(stats):
        raise _broken("stats.depth", action, index, "stats", stats)
    if (key := repeated_key(stats)) is not None:
        raise _broken("stats.repeated-key", action, index, "stats", key)
    try:
        return _decode_stats(stats).num_records
    except msgspec.ValidationError as error:
        rule = "stats.num-records" if "$.numRecords" in str(error) else "stats.json"
        raise _broken(rule, action, index, "stats", stats) from error
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise _broken("stats.json", action, index, "stats", stats) from error


def _check_cardinality(add: Add, vector: DeletionVector, records: int | None, index: int | None) -> None:
    if records is None:
        raise _broken("deletion-vector.num-records", add, index, "stats", add.stats)
    if vector.cardinality > records:
        found = f"{vector.cardinality} of {records}"
        raise _broken("deletion-vector.exceeds-records", add, index, "deletionVector.cardinality", found)
    if broken := unread_vector_rule(vector, records):
        raise _broken_vector(broken, add, index)


def _check_txn(txn: Txn, index: int | None) -> None:
    if not txn.app_id:
        raise _broken("app-id.empty", txn, index, "appId", txn.app_id)
    if txn.version < 0:
        raise _broken("version.negative", txn, index, "version", txn.version)
    if txn.last_updated is not None and txn.last_updated < 0:
        raise _broken("last-updated.negative", txn, index, "lastUpdated", txn.last_updated)
