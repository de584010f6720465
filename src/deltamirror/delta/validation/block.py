"""Many adds or removes at once: the tests of ``TableRules``, a column at a time, for commits of a million files.

Either every action of a block is surely in order, or nothing is said and the rules are asked one action at a time: they
know what is wrong, and allow more.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from types import NoneType
from typing import Any, Final

import msgspec

from deltamirror.delta.actions import Add, Remove
from deltamirror.delta.bounds import DEEPEST_JSON, nests_too_deeply
from deltamirror.delta.keys import have_distinct_keys, repeated_key
from deltamirror.delta.properties import append_only
from deltamirror.delta.validation.paths import LOG_FOLDER, LONGEST_PATH, PLAIN_PATH
from deltamirror.delta.validation.table import FIRST_MILLISECONDS, FIRST_SECONDS, LARGEST, TableRules

_PLAIN = tuple(map(attrgetter, ("path", "size", "modification_time", "data_change", "stats", "partition_values")))
_SPECIAL = tuple(
    map(
        attrgetter,
        ("tags", "deletion_vector", "base_row_id", "default_row_commit_version", "clustering_provider"),
    )
)
_REMOVED = tuple(
    map(
        attrgetter,
        ("path", "size", "deletion_timestamp", "data_change", "extended_file_metadata", "stats", "partition_values"),
    )
)
_SPECIAL_OF_REMOVED = tuple(map(attrgetter, ("tags", "deletion_vector", "base_row_id", "default_row_commit_version")))
_ODD: Final = (TypeError, UnicodeError, RecursionError, msgspec.MsgspecError)
"""What values lead to that have to be looked at."""
_ENCODER = msgspec.json.Encoder()
_are_plain_paths = re.compile(rf"(?:{PLAIN_PATH}\n)+").fullmatch


@dataclass(frozen=True, slots=True)
class PlainBlock:
    """Adds that have nothing but path, size, times, partition values and statistics, as columns.

    A path here needs no escaping: it is its own identity.
    """

    paths: Sequence[str]
    sizes: Sequence[int]
    times: Sequence[int]
    data_changes: Sequence[bool]
    stats: Sequence[str | None]
    partition_values: Sequence[str]
    """As JSON text."""
    num_records: Sequence[int | None]


def plain_block(rules: TableRules, adds: Sequence[Add]) -> PlainBlock | None:
    """The block, if all of its adds surely meet the rules; None if one of them has to be looked at."""
    try:
        columns = _plain_columns(rules, adds)
        if columns is None:
            return None
        paths, sizes, times, changes, stats, values = columns
        records = _num_records(stats, rules)
        texts = _partition_texts(rules, values) if records is not None else None
    except _ODD:
        return None
    if records is None or texts is None:
        return None
    return PlainBlock(paths, sizes, times, changes, stats, texts, records)


def are_plain_removes(rules: TableRules, removes: Sequence[Remove]) -> bool:
    """Whether all of these removes surely meet the rules as they are; False if one of them has to be looked at."""
    try:
        paths, sizes, times, changes, extended, stats, values = (list(map(column, removes)) for column in _REMOVED)
        plain = (
            all(set(map(column, removes)) == {None} for column in _SPECIAL_OF_REMOVED)
            and _are_counts(sizes)
            and _are_counts(times)
            and set(map(type, changes)) == {bool}
            and not (any(changes) and append_only(rules.metadata))
            and set(map(type, extended)) <= {bool, NoneType}
            and set(map(type, values)) == {dict}
            and _are_paths(paths)
        )
        return plain and _are_read(stats, rules) and _are_values_of_removed(rules, values)
    except _ODD:
        return False


def plain_paths(rules: TableRules, adds: Sequence[Add]) -> Sequence[str] | None:
    """The paths, if all of the adds surely meet the rules; None if one of them has to be looked at.

    Unlike those of a ``plain_block``, which we are asked to write, the statistics of each are read by the types of
    the columns: another writer made them, and its errors are told.
    """
    try:
        columns = _plain_columns(rules, adds)
        if columns is None:
            return None
        paths, _, _, _, stats, values = columns
        is_plain = _are_read(stats, rules) and _partition_texts(rules, values) is not None
    except _ODD:
        return None
    return paths if is_plain else None


def _plain_columns(rules: TableRules, adds: Sequence[Add]) -> list[list[Any]] | None:
    """The columns of ``_PLAIN``, if nothing but statistics and partition values is left to be looked at."""
    found = [list(map(column, adds)) for column in _PLAIN]
    paths, sizes, times, changes, _, values = found
    is_plain = (
        not rules.duties
        and all(set(map(column, adds)) == {None} for column in _SPECIAL)
        and _are_counts(sizes)
        and _are_counts(times)
        and (min(times) >= FIRST_MILLISECONDS or max(times) < FIRST_SECONDS)
        and set(map(type, changes)) == {bool}
        and set(map(type, values)) == {dict}
        and _are_paths(paths)
    )
    return found if is_plain else None


def _are_counts(numbers: Sequence[int]) -> bool:
    return set(map(type, numbers)) == {int} and min(numbers) >= 0 and max(numbers) <= LARGEST


def _are_paths(paths: Sequence[str]) -> bool:
    joined = "\n".join(("", *paths, ""))
    return (
        joined.count("\n") == len(paths) + 1
        and _are_plain_paths(joined, 1) is not None
        and f"\n{LOG_FOLDER}" not in joined
        and max(map(len, paths)) <= LONGEST_PATH
    )


def _num_records(stats: Sequence[str | None], rules: TableRules) -> Sequence[int | None] | None:
    if stats.count(None) == len(stats):
        return None if rules.stats_needed else stats  # type: ignore[return-value]  # nothing but None
    # Braces around each text: none goes on in the next one, and as many objects as texts are one each.
    texts = [text for text in stats if text is not None and text[:1] == "{" and text[-1:] == "}"]
    if len(texts) < len(stats):
        return None
    joined = "\n".join(texts)
    if rules.stats.may_have_unread_dates(joined):
        return None
    records = [each.num_records for each in rules.stats.decode_block(joined)]
    if joined.count('"numRecords"') > len(texts) or not _are_plain_stats(texts, joined, rules):
        return None
    return records if len(records) == len(texts) and not (rules.stats_needed and None in records) else None


def _are_read(stats: Sequence[str | None], rules: TableRules) -> bool:
    """Whether all statistics have values that fit their columns, and no key twice."""
    texts = [text for text in stats if text is not None]
    found = list(map(rules.stats.decode, texts))
    if rules.stats_needed and (len(texts) < len(stats) or any(each.num_records is None for each in found)):
        return False
    return not any(map(nests_too_deeply, texts)) and have_distinct_keys(texts)


def _are_plain_stats(texts: Sequence[str], joined: str, rules: TableRules) -> bool:
    """Of the statistics with equally many keys, one is looked at: to parse all of them would double the cost."""
    examples = {text.count('":'): text for text in texts}
    levels = max(examples) + (joined.count("[") if "[" in joined else 0)  # at most: each level is a key, or a bracket
    if levels >= DEEPEST_JSON and any(nests_too_deeply(text) for text in texts):
        return False
    for example in examples.values():
        rules.stats.decode(example)
    return all(repeated_key(text) is None for text in examples.values())


def _partition_texts(rules: TableRules, values: Sequence[dict[str, str | None]]) -> list[str] | None:
    texts = _ENCODER.encode_lines(values).decode().split("\n")[:-1]
    examples = dict(zip(texts, values, strict=True))
    return texts if _are_texts(values) and all(map(rules.are_plain_values, examples.values())) else None


def _are_values_of_removed(rules: TableRules, values: Sequence[dict[str, str | None]]) -> bool:
    """Whether these name columns of the table: a remove repeats the values of its file, which are not read."""
    _ENCODER.encode_lines(values)  # fails for text that has no UTF-8 form
    return set(chain.from_iterable(values)) <= rules.partitions.keys() and _are_texts(values)


def _are_texts(values: Sequence[dict[str, str | None]]) -> bool:
    # Dates and numbers, for example, may have the JSON of a text.
    found = set(map(type, chain.from_iterable(values))), set(map(type, chain.from_iterable(map(dict.values, values))))
    return found[0] <= {str} and found[1] <= {str, NoneType}
