"""The settings of data files that this process writes itself."""

from typing import Annotated, Literal

import msgspec

from deltamirror.config.keys import COUNTING, Reload, described


class RowsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How rows become data files, where Arrow data or DataFrames are appended."""

    target_file_size: Annotated[
        int,
        COUNTING,
        described(
            "A data file is closed, and another one begun, when it has about this size. The table property "
            "`delta.targetFileSize`, in bytes or as `128mb`, goes before it.",
            unit="bytes",
            reload=Reload.LIVE,
        ),
    ] = 134_217_728
    memory: Annotated[
        int,
        COUNTING,
        described(
            "How much all open data files of a write may hold in memory, and those of each task where Spark writes. "
            "Beyond it, the largest one is closed, "
            "however small it is: data that is sorted by its partition columns makes larger files. A DataFrame of more "
            "bytes than this stays with Spark when it is merged.",
            unit="bytes",
            reload=Reload.LIVE,
        ),
    ] = 536_870_912
    compression: Annotated[
        Literal["snappy", "zstd", "gzip", "none"],
        described(
            "How data files are compressed. The table property `delta.parquet.compression.codec` goes before it.",
            reload=Reload.LIVE,
        ),
    ] = "snappy"
