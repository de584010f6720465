"""What a token was used for has the same digest in every release, and whatever order mappings have."""

from deltamirror import Add, DomainMetadata, Metadata, Remove, Txn
from deltamirror.delta.actions import Action, DeletionVector, Format
from deltamirror.delta.definition import Alteration
from deltamirror.delta.schema import from_ddl
from deltamirror.ops.imports.foreign_log import metas_digest
from deltamirror.storage.store import ETag, Meta
from deltamirror.txnlog.commit.fingerprint import ActionsDigest, TableContent, content_digest

ACTIONS: list[Action] = [
    Add(
        path="p=1/q=2/a.parquet",
        partition_values={"p": "1", "q": None},
        size=1,
        modification_time=2,
        data_change=True,
        stats='{"numRecords":3}',
        tags={"b": "1", "a": "2"},
        deletion_vector=DeletionVector(storage_type="u", path_or_inline_dv="x", size_in_bytes=1, cardinality=1),
    ),
    Remove(path="b", data_change=False),
    Txn(app_id="app", version=7),
    DomainMetadata(domain="d", configuration="{}", removed=False),
    Metadata(
        id="0",
        format=Format(provider="parquet", options={}),
        schema_string="{}",
        partition_columns=["p"],
        configuration={"b": "1", "a": "2"},
    ),
]
ALTERATION = Alteration(
    schema=from_ddl("id long, day date"),
    properties={"k": "v", "a": "b"},
    unset=("y", "x"),
    features=("deletionVectors",),
    description="d",
)


def content(table: str = "t", **fields: object) -> TableContent:
    defaults: dict[str, object] = {
        "operation": None,
        "at_version": None,
        "is_verbatim": False,
        "actions": ActionsDigest.of(ACTIONS).text(),
    }
    return TableContent(table=table, **{**defaults, **fields})  # type: ignore[arg-type]


def test_the_digest_of_actions_is_this_one() -> None:
    assert ActionsDigest.of(ACTIONS).text() == "a50bea5326af1a1bf002cff056e2ddaa055ce61cab4e0c7d57ae8837ba40da87"
    assert (
        ActionsDigest.of([], [b'{"commitInfo":{}}\n']).text()
        == "0beff100ff52665adadee9c22e4cc8d34a6d67d99bf83e64ad37eab9f3ab3515"
    )


def test_the_digest_of_a_transaction_is_this_one() -> None:
    assert content_digest([content()]).hex() == "b481d852ef0c3d36f4dfe01d8397bb9b0d34f6f018a3d854886142091e0244d1"
    whole = content(operation="WRITE", at_version=3, removed=[("a", True)], alterations=[ALTERATION])
    assert (
        content_digest([whole, content("u", is_verbatim=True)]).hex()
        == "283d02a00ac512cdff31a31fed2eb80aa826aeefbd6ccbb3c870a6eacbe8758a"
    )


def test_the_digest_of_the_objects_of_an_import_is_this_one() -> None:
    meta = Meta("_delta_log/00000000000000000010.checkpoint.parquet", 7, 1_700_000_000_000, ETag("e"))
    assert metas_digest([meta]) == "08dffe9e185c47645520b6a5b55369c0a13e33bdf6c608a17d7f8ed7ab2295d9"


def test_the_order_of_mappings_and_tables_does_not_count() -> None:
    first = Add(path="a", partition_values={"p": "1", "q": "2"}, size=1, modification_time=1, data_change=True)
    again = Add(path="a", partition_values={"q": "2", "p": "1"}, size=1, modification_time=1, data_change=True)
    assert ActionsDigest.of([first]).text() == ActionsDigest.of([again]).text()
    one, other = (Alteration(properties=each) for each in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}))
    assert content_digest([content(alterations=[one])]) == content_digest([content(alterations=[other])])
    assert content_digest([content("t"), content("u")]) == content_digest([content("u"), content("t")])


def test_whatever_is_asked_for_counts() -> None:
    asked = [
        content(),
        content("u"),
        content(operation="WRITE"),
        content(at_version=0),
        content(is_verbatim=True),
        content(actions=""),
        content(removed=[("a", True)]),
        content(removed=[("a", False)]),
        content(alterations=[Alteration()]),
        content(alterations=[Alteration(properties={"k": "v"})]),
        content(alterations=[Alteration(unset=("k",))]),
        content(alterations=[Alteration(name="k")]),
        content(alterations=[ALTERATION]),
    ]
    assert len({content_digest([each]) for each in asked}) == len(asked)
