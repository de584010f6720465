"""Each rule of Delta's conflict detection, and each of its exceptions."""

import pickle
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from deltamirror.delta.actions import (
    Action,
    Add,
    Cdc,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    Remove,
    Txn,
)
from deltamirror.delta.conflicts import (
    CommitFacts,
    ConflictKind,
    IsolationLevel,
    PartitionRead,
    ReadSet,
    adopt,
    concerning,
    find_conflict,
    implied_reads,
    is_blind_append,
    isolation_for,
    table_isolation,
)
from deltamirror.errors import Unsupported

pytestmark = pytest.mark.requirement("R36")

LEGACY = Protocol(min_reader_version=1, min_writer_version=2)
FEATURES = ["appendOnly", "invariants"]
SCHEMA = '{"type":"struct","fields":[{"name":"k","type":"long","nullable":true,"metadata":{}}]}'
MAPPED = SCHEMA.replace(
    '"metadata":{}', '"metadata":{"delta.columnMapping.id":1,"delta.columnMapping.physicalName":"k"}'
)
METADATA = Metadata(
    id="t",
    format=Format(provider="parquet", options={}),
    schema_string=SCHEMA,
    partition_columns=["day"],
    configuration={"owner": "me"},
)


def writer(*features: str) -> Protocol:
    return Protocol(min_reader_version=1, min_writer_version=7, writer_features=[*FEATURES, *features])


def reader(*features: str) -> Protocol:
    return Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=list(features),
        writer_features=[*FEATURES, *features],
    )


def configured(**configuration: str) -> Metadata:
    return replace(METADATA, configuration={**METADATA.configuration, **configuration})


def add(path: str, day: str | None = "1", *, data_change: bool = True) -> Add:
    return Add(path=path, partition_values={"day": day}, size=1, modification_time=1, data_change=data_change)


def remove(path: str, day: str | None = "1", *, vector: str | None = None) -> Remove:
    deleted = None
    if vector is not None:
        deleted = DeletionVector(storage_type="i", path_or_inline_dv=vector, size_in_bytes=1, cardinality=1)
    return Remove(path=path, data_change=True, partition_values={"day": day}, deletion_vector=deleted)


def days(*values: str | None) -> ReadSet:
    return ReadSet(partitions=({"day": frozenset(values)},))


def conflict(
    current: list[Action],
    winner: list[Action],
    *,
    reads: ReadSet | None = None,
    isolation: IsolationLevel = IsolationLevel.SERIALIZABLE,
    protocol: Protocol = LEGACY,
    metadata: Metadata = METADATA,
) -> ConflictKind | None:
    implied = implied_reads(current, reads)
    reason = find_conflict(
        CommitFacts.of(current, reads=implied),
        implied,
        CommitFacts.of(winner),
        isolation=isolation,
        protocol_before=protocol,
        metadata_before=metadata,
    )
    return None if reason is None else reason.kind


class TestProtocol:
    def test_two_protocol_changes_exclude_each_other(self) -> None:
        assert conflict([LEGACY], [LEGACY]) is ConflictKind.PROTOCOL_CHANGED

    @pytest.mark.parametrize(
        "feature",
        ["rowTracking", "domainMetadata", "inCommitTimestamp", "changeDataFeed", "icebergCompatV2"],
    )
    def test_a_writer_feature_that_asks_nothing_of_written_files_is_adopted(self, feature: str) -> None:
        assert conflict([add("a")], [writer(feature)]) is None

    @pytest.mark.parametrize(
        "feature", ["deletionVectors", "v2Checkpoint", "timestampNtz", "vacuumProtocolCheck", "typeWidening"]
    )
    def test_a_reader_feature_that_asks_nothing_of_written_files_is_adopted(self, feature: str) -> None:
        assert conflict([add("a")], [reader(feature)]) is None

    @pytest.mark.parametrize("feature", ["checkConstraints", "generatedColumns", "identityColumns", "clustering"])
    def test_any_other_feature_fails_even_a_blind_append(self, feature: str) -> None:
        assert conflict([add("a")], [writer(feature)]) is ConflictKind.PROTOCOL_CHANGED

    def test_a_feature_that_nobody_knows_fails_concurrent_commits(self) -> None:
        assert conflict([add("a")], [writer("x-unheard-of")]) is ConflictKind.PROTOCOL_CHANGED

    def test_dropping_a_feature_fails_concurrent_commits(self) -> None:
        assert conflict([add("a")], [LEGACY], protocol=writer("rowTracking")) is ConflictKind.PROTOCOL_CHANGED

    def test_the_same_features_in_another_form_are_adopted(self) -> None:
        assert conflict([add("a")], [writer()]) is None

    def test_a_legacy_version_that_implies_constraints_fails_concurrent_commits(self) -> None:
        upgraded = Protocol(min_reader_version=1, min_writer_version=3)
        assert conflict([add("a")], [upgraded]) is ConflictKind.PROTOCOL_CHANGED

    def test_the_protocol_is_checked_before_all_else(self) -> None:
        current: list[Action] = [remove("a"), METADATA, LEGACY]
        assert conflict(current, [remove("a"), METADATA, LEGACY]) is ConflictKind.PROTOCOL_CHANGED


class TestMetadata:
    def test_two_metadata_changes_exclude_each_other_even_if_equal(self) -> None:
        assert conflict([METADATA], [METADATA]) is ConflictKind.METADATA_CHANGED

    def test_metadata_that_is_only_repeated_is_adopted(self) -> None:
        assert conflict([add("a")], [METADATA]) is None

    @pytest.mark.parametrize(
        "changed",
        [
            replace(METADATA, name="other"),
            replace(METADATA, description="other"),
            replace(METADATA, partition_columns=[]),
            replace(METADATA, created_time=1),
            replace(METADATA, id="u"),
            replace(METADATA, schema_string=SCHEMA.replace("long", "string")),
            replace(METADATA, schema_string=MAPPED),
            replace(METADATA, configuration={}),
            configured(owner="you"),
            configured(**{"delta.appendOnly": "true"}),
            configured(**{"delta.enableChangeDataFeed": "true"}),
        ],
    )
    def test_any_other_change_fails_even_a_blind_append(self, changed: Metadata) -> None:
        assert conflict([add("a")], [changed]) is ConflictKind.METADATA_CHANGED

    HARMLESS = (
        (
            writer("rowTracking", "domainMetadata"),
            {
                "delta.enableRowTracking": "true",
                "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
                "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-1",
            },
        ),
        (reader("deletionVectors"), {"delta.enableDeletionVectors": "true"}),
        (reader("v2Checkpoint"), {"delta.checkpointPolicy": "v2"}),
        (
            writer("inCommitTimestamp"),
            {
                "delta.enableInCommitTimestamps": "true",
                "delta.inCommitTimestampEnablementVersion": "3",
                "delta.inCommitTimestampEnablementTimestamp": "1700",
            },
        ),
        (reader("columnMapping"), {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}),
    )

    @pytest.mark.parametrize(("protocol", "properties"), HARMLESS)
    def test_turning_on_what_asks_nothing_of_written_files_is_adopted(
        self, protocol: Protocol, properties: dict[str, str]
    ) -> None:
        assert conflict([add("a")], [configured(**properties)], protocol=protocol) is None
        assert conflict([add("a")], [configured(**properties), protocol]) is None

    @pytest.mark.parametrize(("protocol", "properties"), HARMLESS)
    def test_turning_it_on_without_the_feature_fails_concurrent_commits(
        self, protocol: Protocol, properties: dict[str, str]
    ) -> None:
        assert conflict([add("a")], [configured(**properties)]) is ConflictKind.METADATA_CHANGED

    @pytest.mark.parametrize(("protocol", "properties"), HARMLESS)
    def test_turning_it_off_fails_concurrent_commits(self, protocol: Protocol, properties: dict[str, str]) -> None:
        off = {key: "classic" if key == "delta.checkpointPolicy" else "false" for key in properties}
        before = configured(**properties)
        winner: list[Action] = [replace(before, configuration={**before.configuration, **off})]
        kind = conflict([add("a")], winner, protocol=protocol, metadata=before)
        assert kind is ConflictKind.METADATA_CHANGED

    def test_column_mapping_by_name_may_bring_its_field_metadata(self) -> None:
        mapped = replace(configured(**{"delta.columnMapping.mode": "name"}), schema_string=MAPPED)
        assert conflict([add("a")], [mapped], protocol=reader("columnMapping")) is None

    def test_column_mapping_may_not_bring_another_schema(self) -> None:
        mapped = replace(
            configured(**{"delta.columnMapping.mode": "name"}), schema_string=MAPPED.replace("long", "int")
        )
        assert conflict([add("a")], [mapped], protocol=reader("columnMapping")) is ConflictKind.METADATA_CHANGED

    def test_column_mapping_by_id_fails_concurrent_commits(self) -> None:
        mapped = configured(**{"delta.columnMapping.mode": "id"})
        assert conflict([add("a")], [mapped], protocol=reader("columnMapping")) is ConflictKind.METADATA_CHANGED

    def test_metadata_that_only_moves_identity_marks_is_adopted(self) -> None:
        moved = replace(METADATA, schema_string=SCHEMA.replace("{}", '{"delta.identity.highWaterMark":9}'))
        tagged = CommitInfo(tags={"delta.identity.schemaUpdate": "true"})
        assert conflict([add("a")], [tagged, moved]) is None
        assert conflict([METADATA], [tagged, moved]) is ConflictKind.METADATA_CHANGED

    def test_a_winner_without_metadata_leaves_a_metadata_change_alone(self) -> None:
        assert conflict([configured(owner="you")], [add("a"), remove("b")]) is None


class TestAdoption:
    def test_a_rebased_commit_goes_on_with_the_winners_protocol_and_metadata(self) -> None:
        protocol = writer("rowTracking", "domainMetadata")
        metadata = configured(**{"delta.enableRowTracking": "true"})
        adopted = adopt(CommitFacts.of([protocol, metadata]), protocol_before=LEGACY, metadata_before=METADATA)
        assert (adopted.protocol, adopted.metadata) == (protocol, metadata)
        assert adopted.row_tracking_enabled

    def test_a_winner_that_changes_neither_leaves_both_in_force(self) -> None:
        adopted = adopt(CommitFacts.of([add("a")]), protocol_before=LEGACY, metadata_before=METADATA)
        assert (adopted.protocol, adopted.metadata) == (LEGACY, METADATA)
        assert not adopted.row_tracking_enabled


class TestDomainsAndTransactions:
    def test_one_domain_is_set_by_one_of_two_commits(self) -> None:
        x, y = (DomainMetadata(domain=name, configuration="", removed=False) for name in "xy")
        assert conflict([x], [x]) is ConflictKind.CONCURRENT_DOMAIN
        assert conflict([x], [y]) is None

    def test_the_row_tracking_domain_never_conflicts(self) -> None:
        mark = DomainMetadata(domain="delta.rowTracking", configuration="", removed=False)
        assert conflict([mark, add("a")], [mark, add("b")]) is None

    def test_an_application_whose_progress_was_read_must_not_have_moved(self) -> None:
        moved: list[Action] = [Txn(app_id="a", version=2)]
        assert conflict([add("a")], moved, reads=ReadSet(app_ids=frozenset("a"))) is ConflictKind.CONCURRENT_TRANSACTION
        assert conflict([Txn(app_id="a", version=3)], moved) is ConflictKind.CONCURRENT_TRANSACTION
        assert conflict([Txn(app_id="b", version=3)], moved) is None


class TestAppends:
    blind = CommitInfo(is_blind_append=True)

    def test_an_append_into_a_read_partition_conflicts(self) -> None:
        assert conflict([add("a", "2")], [add("b")], reads=days("1")) is ConflictKind.CONCURRENT_APPEND
        assert conflict([add("a", "2")], [add("b")], reads=days("2", "3")) is None

    def test_an_append_conflicts_with_a_reader_of_the_whole_table(self) -> None:
        whole = ReadSet(whole_table=True)
        assert conflict([add("a")], [add("b", "9")], reads=whole) is ConflictKind.CONCURRENT_APPEND

    def test_a_file_that_was_read_and_is_added_again_conflicts(self) -> None:
        read = ReadSet(files=frozenset({"b"}))
        assert conflict([add("a")], [add("b")], reads=read) is ConflictKind.CONCURRENT_APPEND
        assert conflict([add("a")], [add("c")], reads=read) is None

    def test_write_serializable_overlooks_blind_appends(self) -> None:
        level = IsolationLevel.WRITE_SERIALIZABLE
        assert conflict([add("a")], [self.blind, add("b")], reads=days("1"), isolation=level) is None

    def test_write_serializable_sees_appends_that_are_not_known_to_be_blind(self) -> None:
        level = IsolationLevel.WRITE_SERIALIZABLE
        for info in (CommitInfo(), CommitInfo(is_blind_append=False)):
            kind = conflict([add("a")], [info, add("b")], reads=days("1"), isolation=level)
            assert kind is ConflictKind.CONCURRENT_APPEND

    def test_write_serializable_sees_blind_appends_beside_a_metadata_change(self) -> None:
        kind = conflict(
            [configured(owner="you")],
            [self.blind, add("b")],
            reads=days("1"),
            isolation=IsolationLevel.WRITE_SERIALIZABLE,
        )
        assert kind is ConflictKind.CONCURRENT_APPEND

    def test_snapshot_isolation_never_looks_at_appends(self) -> None:
        level = IsolationLevel.SNAPSHOT
        assert conflict([add("a")], [add("b")], reads=ReadSet(whole_table=True), isolation=level) is None


@pytest.mark.parametrize("isolation", IsolationLevel)
class TestDeletes:
    """These hold at every isolation level."""

    def test_a_removed_file_that_was_read_conflicts(self, isolation: IsolationLevel) -> None:
        read = ReadSet(files=frozenset({"f"}))
        kind = conflict([add("a")], [remove("f")], reads=read, isolation=isolation)
        assert kind is ConflictKind.CONCURRENT_DELETE_READ
        assert conflict([add("a")], [remove("g")], reads=read, isolation=isolation) is None

    def test_a_removed_file_of_a_read_partition_conflicts(self, isolation: IsolationLevel) -> None:
        kind = conflict([add("a", "2")], [remove("f", "1")], reads=days("1"), isolation=isolation)
        assert kind is ConflictKind.CONCURRENT_DELETE_READ
        assert conflict([add("a", "2")], [remove("f", "1")], reads=days("3"), isolation=isolation) is None

    def test_any_remove_conflicts_with_a_reader_of_the_whole_table(self, isolation: IsolationLevel) -> None:
        kind = conflict([add("a")], [remove("f")], reads=ReadSet(whole_table=True), isolation=isolation)
        assert kind is ConflictKind.CONCURRENT_DELETE_READ

    def test_one_file_is_removed_by_one_of_two_commits(self, isolation: IsolationLevel) -> None:
        elsewhere = ReadSet(files=frozenset({"z"}))
        kind = conflict([remove("f")], [remove("f")], reads=elsewhere, isolation=isolation)
        assert kind is ConflictKind.CONCURRENT_DELETE_DELETE

    def test_two_deletion_vectors_of_one_file_exclude_each_other(self, isolation: IsolationLevel) -> None:
        elsewhere = ReadSet(files=frozenset({"z"}))
        kind = conflict([remove("f", vector="x")], [remove("f", vector="y")], reads=elsewhere, isolation=isolation)
        assert kind is ConflictKind.CONCURRENT_DELETE_DELETE

    def test_adding_a_file_again_does_not_raise_it_from_the_dead(self, isolation: IsolationLevel) -> None:
        kind = conflict([add("f", data_change=False)], [remove("f")], isolation=isolation)
        assert kind is ConflictKind.CONCURRENT_DELETE_DELETE

    def test_spellings_of_one_path_are_one_file(self, isolation: IsolationLevel) -> None:
        read = ReadSet(files=frozenset({"day=a%2fb/f"}))
        kind = conflict([add("a")], [remove("day=a%2Fb/f")], reads=read, isolation=isolation)
        assert kind is ConflictKind.CONCURRENT_DELETE_READ

    def test_a_remove_that_does_not_state_its_partition_counts_as_read(self, isolation: IsolationLevel) -> None:
        unknown: tuple[dict[str, str | None] | None, ...] = (None, {})
        for values in unknown:
            bare = Remove(path="f", data_change=True, partition_values=values)
            kind = conflict([add("a")], [bare], reads=days("1"), isolation=isolation)
            assert kind is ConflictKind.CONCURRENT_DELETE_READ
            assert conflict([add("a")], [bare], isolation=isolation) is None


class TestReads:
    def test_removing_without_saying_what_was_read_means_the_whole_table(self) -> None:
        assert implied_reads([remove("a")], None).whole_table
        assert implied_reads([remove("a")], ReadSet(app_ids=frozenset("x"))).whole_table

    def test_a_declared_read_set_is_taken_at_its_word(self) -> None:
        assert implied_reads([remove("a")], days("1")) == days("1")

    @pytest.mark.parametrize("action", [add("a"), METADATA, LEGACY])
    def test_appending_and_altering_read_nothing(self, action: Action) -> None:
        assert implied_reads([action], None) == ReadSet.NOTHING

    def test_setting_the_version_of_an_application_reads_it(self) -> None:
        assert implied_reads([Txn(app_id="x", version=1)], None).app_ids == {"x"}

    @pytest.mark.parametrize(
        ("partitions", "covered"),
        [
            ([{}], True),
            ([{"day": {"1"}}], True),
            ([{"day": {"2"}}], False),
            ([{"day": {"2"}}, {"day": {"3", "1"}}], True),
            ([{"day": {"1"}, "hour": {"7"}}], True),
            ([{"day": {"1"}, "hour": {"8"}}], False),
            ([{"day": {"1"}, "hour": {"8"}}, {"hour": {"7", "9"}}], True),
            ([{"day": {"1", "2"}, "hour": {"7", "8"}}], True),
            ([{"day": {"2", "3"}, "hour": {"7", "8"}}], False),
            ([{"zone": {None}}], True),
            ([{"zone": {""}}], True),
            ([{"zone": {"x"}}], False),
            ([{"unheard": {"x"}}], True),
            ([{"day": set()}], False),
        ],
    )
    def test_a_file_is_read_if_every_named_column_has_a_selected_value(
        self, partitions: list[dict[str, set[str | None]]], covered: bool
    ) -> None:
        read = ReadSet(partitions=tuple({k: frozenset(v) for k, v in one.items()} for one in partitions))
        assert read.covers("f", {"day": "1", "hour": "7", "zone": None}) is covered
        assert read.covers("f", {"day": "1", "hour": "7", "zone": ""}) is covered

    values: st.SearchStrategy[str | None] = st.sampled_from(["1", "2", None])
    partition_reads = st.dictionaries(st.sampled_from(["a", "b"]), st.frozensets(values, max_size=3), max_size=2)

    @given(
        reads=st.lists(partition_reads, max_size=4),
        file=st.fixed_dictionaries({"a": values, "b": values}),
    )
    def test_the_index_answers_as_looking_at_every_read_would(
        self, reads: list[PartitionRead], file: dict[str, str | None]
    ) -> None:
        naive = any(all(file[name] in selected for name, selected in read.items()) for read in reads)
        assert ReadSet(partitions=tuple(reads)).covers("f", file) is naive

    def test_a_huge_product_of_partitions_is_not_expanded(self) -> None:
        many: frozenset[str | None] = frozenset(map(str, range(5_000)))
        read = ReadSet(partitions=({"a": many, "b": many},))
        assert read.covers("f", {"a": "17", "b": "4999"})
        assert not read.covers("f", {"a": "17", "b": "5000"})

    def test_facts_and_read_sets_pickle(self) -> None:
        facts = CommitFacts.of([add("a"), remove("b")])
        assert pickle.loads(pickle.dumps(facts)) == facts  # noqa: S301
        assert pickle.loads(pickle.dumps(days("1"))) == days("1")  # noqa: S301


class TestConcerning:
    """Held against the files of a winner that decide, a commit is told what all of its files would tell."""

    places = st.tuples(st.sampled_from("abcde"), st.sampled_from(["1", "2", None]))
    files = st.lists(places, unique_by=lambda place: place[0], max_size=5)
    others = st.lists(
        st.sampled_from(
            [
                CommitInfo(is_blind_append=True),
                Cdc(path="c", partition_values={"day": "1"}, size=1, data_change=False),
                METADATA,
                Txn(app_id="x", version=1),
            ]
        ),
        max_size=2,
    )
    reads = st.sampled_from(
        [
            ReadSet.NOTHING,
            ReadSet(whole_table=True),
            ReadSet(files=frozenset("ab")),
            ReadSet(app_ids=frozenset("x")),
            days("1"),
            days("2", None),
        ]
    )

    @given(
        added=files,
        removed=files,
        others=others,
        written=files,
        reads=reads,
        isolation=st.sampled_from(IsolationLevel),
        shuffled=st.randoms(use_true_random=False),
    )
    def test_the_files_that_decide_tell_the_same_conflict_as_all(
        self,
        added: list[tuple[str, str | None]],
        removed: list[tuple[str, str | None]],
        others: list[Action],
        written: list[tuple[str, str | None]],
        reads: ReadSet,
        isolation: IsolationLevel,
        shuffled: Random,
    ) -> None:
        winner = [*(add(*place) for place in added), *(remove(*place) for place in removed), *others]
        shuffled.shuffle(winner)
        current = CommitFacts.of([(add, remove)[number % 2](*place) for number, place in enumerate(written)])
        decisive = list(concerning(winner, reads, {path for path, _ in written}.intersection))
        found = [
            find_conflict(
                current,
                reads,
                CommitFacts.of(actions),
                isolation=isolation,
                protocol_before=LEGACY,
                metadata_before=METADATA,
            )
            for actions in (winner, decisive)
        ]
        assert found[0] == found[1]

    def test_of_many_files_few_decide(self) -> None:
        winner: list[Action] = [add(f"a{number}") for number in range(3_000)]
        winner += [remove(f"r{number}") for number in range(3_000)]
        decisive = list(concerning(winner, ReadSet(whole_table=True), {"r2999", "r7000"}.intersection))
        assert decisive == [add("a0"), remove("r0"), remove("r2999")]


class TestBlindAppends:
    def test_adds_that_read_nothing_are_blind(self) -> None:
        assert is_blind_append([add("a"), Txn(app_id="x", version=1)], ReadSet(app_ids=frozenset("x")))
        assert is_blind_append([METADATA], ReadSet.NOTHING)

    @pytest.mark.parametrize("reads", [days("1"), ReadSet(whole_table=True), ReadSet(files=frozenset("f"))])
    def test_adds_that_read_data_are_not(self, reads: ReadSet) -> None:
        assert not is_blind_append([add("a")], reads)

    def test_commits_that_do_more_to_files_than_adding_are_not(self) -> None:
        assert not is_blind_append([remove("a")], ReadSet.NOTHING)
        assert not is_blind_append([Cdc(path="c", partition_values={}, size=1, data_change=False)], ReadSet.NOTHING)

    def test_a_claim_does_not_make_an_own_commit_blind(self) -> None:
        claimed: list[Action] = [CommitInfo(is_blind_append=True), add("a")]
        assert not CommitFacts.of(claimed, reads=days("1")).is_blind_append
        assert CommitFacts.of(claimed).is_blind_append

    @given(
        current=st.lists(st.sampled_from("abc"), unique=True),
        winner=st.lists(st.sampled_from("def"), unique=True),
        isolation=st.sampled_from(IsolationLevel),
    )
    def test_blind_appends_never_conflict_whichever_comes_first(
        self, current: list[str], winner: list[str], isolation: IsolationLevel
    ) -> None:
        one: list[Action] = [CommitInfo(is_blind_append=True), *map(add, current)]
        other: list[Action] = [CommitInfo(is_blind_append=True), *map(add, winner)]
        assert conflict(one, other, isolation=isolation) is None
        assert conflict(other, one, isolation=isolation) is None


class TestIsolation:
    optimize = CommitInfo(operation="OPTIMIZE")
    mark = DomainMetadata(domain="delta.rowTracking", configuration="", removed=False)

    def level(self, *actions: Action, default: IsolationLevel = IsolationLevel.SERIALIZABLE) -> IsolationLevel:
        return isolation_for(CommitFacts.of(actions), default)

    @pytest.mark.parametrize("default", IsolationLevel)
    def test_rearranging_data_needs_a_snapshot_only(self, default: IsolationLevel) -> None:
        moved = add("a", data_change=False)
        assert self.level(self.optimize, moved, self.mark, default=default) is IsolationLevel.SNAPSHOT

    def test_a_commit_without_actions_needs_a_snapshot_only(self) -> None:
        assert self.level(CommitInfo(operation="VACUUM START")) is IsolationLevel.SNAPSHOT

    @pytest.mark.parametrize("other", [Txn(app_id="x", version=1), METADATA, LEGACY, add("b")])
    def test_a_commit_that_does_anything_else_keeps_the_level_of_the_table(self, other: Action) -> None:
        assert self.level(self.optimize, add("a", data_change=False), other) is IsolationLevel.SERIALIZABLE

    def test_write_serializable_is_kept_by_operations_that_change_data(self) -> None:
        write = CommitInfo(operation="WRITE")
        level = self.level(write, add("a", data_change=False), default=IsolationLevel.WRITE_SERIALIZABLE)
        assert level is IsolationLevel.WRITE_SERIALIZABLE

    def test_a_table_is_serializable_unless_it_says_otherwise(self) -> None:
        assert table_isolation(METADATA) is IsolationLevel.SERIALIZABLE
        relaxed = configured(**{"delta.isolationLevel": "WriteSerializable"})
        assert table_isolation(relaxed) is IsolationLevel.WRITE_SERIALIZABLE

    @pytest.mark.parametrize("name", ["SnapshotIsolation", "serial"])
    def test_a_level_that_tables_do_not_have_is_refused(self, name: str) -> None:
        with pytest.raises(Unsupported, match=name):
            table_isolation(configured(**{"delta.isolationLevel": name}))
