"""Paths: decided on where a reader will look for the file."""

from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.delta.actions import Action
from deltamirror.delta.paths import canonical_path, decode_path, encode_path
from deltamirror.delta.validation import OncePerCommit, TableRules, plain_block
from deltamirror.delta.validation.paths import broken_path_rule, is_plain_path
from deltamirror.errors import InvalidAction
from tests.support.lakes.validation import ADD, PLAIN, REMOVE, TABLE, changed

pytestmark = pytest.mark.requirement("R5")


@pytest.mark.parametrize(
    "path",
    [
        "a.parquet",
        "x/y/a-b_c=1,2+3~.parquet",
        "p=é/é.parquet",
        "ts=2024-01-01%252010%253A00%253A00/a%20b.parquet",
        "ts=10%3A00/a.parquet",
        "d/ts=10%3A00/a.parquet",
        "a;b@c&d'(e)*f!g$h😀.parquet",
        "a%3Fb%23c%5Bd%5D%7Be%7D%7Cf%5Eg%60h%22i%3Cj%3E%5C.parquet",
        "a..b",
        "...x",
        ".hidden/_under.parquet",
        "_delta_logs/a",
    ],
)
def test_paths_that_every_reader_finds_pass(path: str) -> None:
    for verbatim in (False, True):
        TableRules.of(PLAIN, TABLE, verbatim=verbatim).check(msgspec.structs.replace(ADD, path=path))


REFUSED = {
    "": "empty",
    "..": "parent",
    "../a": "parent",
    "a/..": "parent",
    "%2e%2e/b.parquet": "parent",
    "a/%2E./b.parquet": "parent",
    "a%2F..%2Fb.parquet": "parent",
    "s3://bucket/../a": "parent",
    "~/x.parquet": "home",
    "%7Eroot/x.parquet": "home",
    "./x.parquet": "point",
    "d/%2E/x.parquet": "point",
    "a//x.parquet": "empty-name",
    "a%2F%2Fx.parquet": "empty-name",
    "a/": "empty-name",
    "/": "empty-name",
    "//a": "empty-name",
    "s3://bucket//a": "empty-name",
    "file:////a": "empty-name",
    "a:b.parquet": "colon",
    "ts=10:00/x.parquet": "colon",
    "d/a:b.parquet": "colon",
    "d/a%3Ab.parquet": "colon",
    ":a": "colon",
    "file:a": "colon",
    "s3:bucket": "colon",
    "s3://bucket": "empty-name",
    "c:/a": "absolute-windows",
    "\\\\server\\share\\a": "absolute-windows",
    "d\\a": "backslash",
    "a b": "raw-character",
    "a#b": "raw-character",
    "a?b": "raw-character",
    "a\nb": "raw-character",
    "a\u2028b": "raw-character",
    "a\u00a0b": "raw-character",
    "a%zz": "bad-escape",
    "a%": "bad-escape",
    "%": "bad-escape",
    "a%00b.parquet": "not-text",
    "a%0Ab.parquet": "not-text",
    "a%7Fb.parquet": "not-text",
    "a%FF.parquet": "not-text",
    "a%ED%A0%80.parquet": "not-text",
    "_delta_log/x.parquet": "log",
    "%5fdelta_log/x.parquet": "log",
    "_delta_log%2Fx.parquet": "log",
    "x" * 4097: "long",
}


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: repr(path[:40]))
def test_a_path_that_readers_fail_at_or_find_elsewhere_is_refused(path: str) -> None:
    odd = msgspec.structs.replace(ADD, path=path)
    for verbatim in (False, True):
        with pytest.raises(InvalidAction) as caught:
            TableRules.of(PLAIN, TABLE, verbatim=verbatim).check(odd)
        assert caught.value.rule == f"add.path.{REFUSED[path]}"
    assert plain_block(TableRules.of(PLAIN, TABLE), [ADD, odd]) is None


@given(st.text(max_size=12))
def test_a_path_has_one_canonical_spelling(physical: str) -> None:
    spelling = canonical_path(encode_path(physical))
    assert decode_path(spelling) == physical
    assert canonical_path(spelling) == spelling == canonical_path(quote(physical, safe=""))


@pytest.mark.parametrize(
    "path",
    [
        "s3://bucket/a.parquet",
        "abfss://c@account.dfs.core.windows.net/a%20b.parquet",
        "file:///abs/a.parquet",
        "file:/abs/a.parquet",
        "/abs/a.parquet",
    ],
)
def test_a_file_outside_of_the_table_is_only_taken_from_another_writer(path: str) -> None:
    """Shallow clones of Delta Spark have such; delta-rs and DuckDB do not find them."""
    with pytest.raises(InvalidAction) as caught:
        TableRules.of(PLAIN, TABLE).check(msgspec.structs.replace(ADD, path=path))
    assert caught.value.rule == "add.path.absolute"
    TableRules.of(PLAIN, TABLE, verbatim=True).check(msgspec.structs.replace(ADD, path=path))
    TableRules.of(PLAIN, TABLE).check(msgspec.structs.replace(REMOVE, path=path))


@pytest.mark.parametrize(
    ("path", "spelling"),
    {
        "%61.parquet": "a.parquet",
        "a%2Eparquet": "a.parquet",
        "a%2Fb.parquet": "a/b.parquet",
        "day%3D1/x": "day=1/x",
        "%C3%A9": "é",
        "a%5bb": "a%5Bb",
        "d/ts=10:00/a": "d/ts=10%3A00/a",
    }.items(),
)
def test_a_new_file_has_one_spelling(path: str, spelling: str) -> None:
    rules = TableRules.of(PLAIN, TABLE)
    with pytest.raises(InvalidAction, match=f"instead of {spelling}'") as caught:
        rules.check(msgspec.structs.replace(ADD, path=path))
    assert caught.value.rule == "add.path.spelling"
    rules.check(msgspec.structs.replace(ADD, path=spelling))
    rules.check(msgspec.structs.replace(ADD, path=path, data_change=False))  # a file that the table may have
    rules.check(msgspec.structs.replace(REMOVE, path=path))
    TableRules.of(PLAIN, TABLE, verbatim=True).check(msgspec.structs.replace(ADD, path=path))


@given(st.text(alphabet=st.sampled_from("a.=_/-~\n %:"), max_size=12))
def test_what_passes_as_plain_is_in_order(path: str) -> None:
    if is_plain_path(path):
        assert broken_path_rule(path) is None
    if plain_block(TableRules.of(PLAIN, TABLE), [msgspec.structs.replace(ADD, path=path)]) is not None:
        assert broken_path_rule(path) is None


@pytest.mark.parametrize("action", [ADD, REMOVE], ids=["add", "remove"])
def test_two_spellings_of_one_escape_are_one_path(action: Action) -> None:
    once = OncePerCommit()
    once.see(changed(action, path="a%2fb.parquet"), 0)
    with pytest.raises(InvalidAction):
        once.see(changed(action, path="a%2Fb.parquet"), 1)
