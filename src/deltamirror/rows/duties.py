"""What a table asks of those who write its rows, and what of it is refused, by name."""

from collections.abc import Iterator
from typing import Final

from deltamirror.delta.features import FEATURES, row_duties
from deltamirror.delta.properties import CONSTRAINT_PREFIX, ROW_TRACKING, append_only, is_enabled
from deltamirror.delta.schema import primitive_names
from deltamirror.errors import Refused, Unsupported
from deltamirror.rows.layout import Layout
from deltamirror.rows.text_lengths import nested_lengths

_UNWRITTEN: Final = frozenset({"variant", "void"})
_VOUCHED: Final = frozenset({"checkConstraints", "generatedColumns", "invariants"})
"""What the caller may vouch for: all of it is about the values of rows."""
_OF_NEW_VALUES: Final = _VOUCHED | {"identityColumns"}
"""What rows that are copied as they are meet already."""


def require_writable_rows(layout: Layout, *, rows_checked: bool) -> None:
    """Refuse a table with rules for rows that are not enforced here, unless the caller vouches for them."""
    _require_none(layout, _VOUCHED if rows_checked else frozenset())
    _require_plain_lengths(layout, rows_checked=rows_checked)


def require_copyable_rows(layout: Layout) -> None:
    """Refuse a table whose files need more than the rows that they have: copies of rows keep all other rules."""
    _require_none(layout, _OF_NEW_VALUES)


def require_updatable_rows(layout: Layout, *, rows_checked: bool) -> None:
    """Refuse a table with rules for the values of rows that are not enforced here, unless the caller vouches for them.

    Rows that are updated keep the values of their identity columns.
    """
    _require_none(layout, _OF_NEW_VALUES if rows_checked else frozenset({"identityColumns"}))
    _require_plain_lengths(layout, rows_checked=rows_checked)


def require_removable_rows(layout: Layout) -> None:
    """Refuse a table whose rows may not change."""
    if append_only(layout.metadata):
        raise Refused(
            f"table {layout.table!r} has delta.appendOnly: its rows are neither deleted nor updated",
            hint="set delta.appendOnly to false first",
            table=layout.table,
        )


def _require_none(layout: Layout, met: frozenset[str]) -> None:
    require_plain_types(layout, "written")
    for feature, duty in row_duties(layout.metadata, layout.schema).items():
        if feature in met:
            continue
        named = ", ".join(_names(layout, feature))
        raise Refused(
            f"table {layout.table!r} has {feature}{f' ({named})' if named else ''}: {duty}, which is not checked here",
            hint="write these rows by Delta Spark"
            + (", or check them and say so: transaction(rows_checked=True)" if feature in _VOUCHED else ""),
            table=layout.table,
        )


def _require_plain_lengths(layout: Layout, *, rows_checked: bool) -> None:
    for path, field in () if rows_checked else layout.schema.walk():
        if declared := nested_lengths(field):
            raise Refused(
                f"table {layout.table!r}: the column {'.'.join(path)!r} is {declared}, and lengths of texts inside "
                "of others are not checked here",
                hint="write these rows by Delta Spark, or check them and say so: transaction(rows_checked=True)",
                table=layout.table,
            )


def require_movable_rows(layout: Layout) -> None:
    """Refuse a table whose rows cannot be moved to other files here: they would lose their ids, or their layout."""
    require_plain_types(layout, "copied")
    if is_enabled(layout.metadata, ROW_TRACKING):
        raise _uncopied(layout, "rowTracking", "rows keep their ids in other files")
    for feature, duty in row_duties(layout.metadata, layout.schema).items():
        if feature not in _OF_NEW_VALUES:
            raise _uncopied(layout, feature, duty)


def _uncopied(layout: Layout, feature: str, duty: str) -> Unsupported:
    return Unsupported(
        f"table {layout.table!r} has {feature}: {duty}, which is not supported here",
        hint="let Delta Spark do it, and adopt its commit: `deltamirror adopt`",
        table=layout.table,
        features=(feature,),
    )


def require_plain_types(layout: Layout, doing: str) -> None:
    """Refuse a table with a column of a type that Arrow data has no rows of."""
    for path, field in layout.schema.walk():
        if found := next((name for name in primitive_names(field.type) if name in _UNWRITTEN), None):
            raise Unsupported(
                f"table {layout.table!r}: rows cannot be {doing}, since the column {'.'.join(path)!r} "
                f"is of type {found}",
                hint="use Delta Spark for this table",
                table=layout.table,
            )


def _names(layout: Layout, feature: str) -> Iterator[str]:
    if feature == "checkConstraints":
        for name, expression in layout.metadata.configuration.items():
            if name.startswith(CONSTRAINT_PREFIX):
                yield f"{name.removeprefix(CONSTRAINT_PREFIX)}: {expression}"
    elif key := FEATURES[feature].by_column:
        yield from (".".join(path) for path, field in layout.schema.walk() if key in field.metadata)
