"""A table as the Parquet file of a checkpoint, which was read back.

The file looks like one of the reference writer: format version 1 with data pages of version 1, every field optional,
groups named ``key_value``, ``list`` and ``element``, decimals as integers where they fit, timestamps as INT96, and the
Spark schema in the footer. What pyarrow cannot do as the reference does: the message is named ``schema``, and
timestamps with and without a zone in one file are all INT64, since INT96 would take in both.

Values are plain or from a dictionary. Delta encodings would save a tenth of a real checkpoint, but each of the
engines that read Delta has to know them, and the reference never writes them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror.deltalog.checkpoint.blocks import in_threads
from deltamirror.deltalog.checkpoint.parquet import SCHEMA_KEY, VERSION, VERSION_KEY, has_int96, leaves
from deltamirror.errors import Internal
from deltamirror.publish.checkpoint import readback
from deltamirror.publish.checkpoint.stitching import UnchangedGroups, stitched

_UNIQUE: Final = frozenset({"baseRowId", "path", "pathOrInlineDv", "size", "stats"})
_DICTIONARY_BYTES: Final = 64 * 1024
"""Where a column turns out to be unique, this much of every row group was spent in vain: little of 32 MiB."""


def encoded(
    groups: Iterable[pa.Table],
    columns: pa.Schema,
    schema: str,
    *,
    compression: str,
    unchanged: UnchangedGroups | None = None,
) -> pa.Buffer:
    """The bytes of the file of these row groups, and of ``unchanged`` ones after them; ``schema`` is Spark's text.

    Threads encode, decode and compare a row group each; only a few of them are in memory at a time. The unchanged ones
    are neither decoded nor compared: they are of a file that was.
    """
    layout = _layout(columns, compression)
    footer: Mapping[bytes, bytes] = {SCHEMA_KEY: schema.encode(), VERSION_KEY: VERSION}

    def file_of(group: pa.Table) -> pa.Buffer:
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, columns, **layout) as writer:
            writer.write_table(group, row_group_size=max(group.num_rows, 1))
            writer.add_key_value_metadata(footer)
        file = sink.getvalue()
        readback.check(file, group)
        return file

    try:
        return stitched(in_threads(file_of, groups), unchanged)
    except pa.ArrowException as error:
        raise Internal(f"the checkpoint cannot be written as Parquet: {error}") from error


def _layout(schema: pa.Schema, compression: str) -> dict[str, object]:
    return {
        "version": "1.0",
        "data_page_version": "1.0",
        "compression": compression,
        "use_dictionary": [path for path, _ in leaves(schema) if path.rpartition(".")[2] not in _UNIQUE],
        "dictionary_pagesize_limit": _DICTIONARY_BYTES,
        "write_statistics": True,
        "use_deprecated_int96_timestamps": has_int96(schema),
        "store_decimal_as_integer": True,
        "use_compliant_nested_type": True,
        "store_schema": False,
    }
