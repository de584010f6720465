"""The settings of maintenance that a service does by itself."""

from typing import Annotated

import msgspec

from deltamirror.config.keys import COUNTING, MANY_BYTES, POSITIVE, SHARE, Reload, described


class MaintenanceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which tables a service maintains beside mirroring, how, and when: off, unless it is asked for."""

    optimize: Annotated[
        bool,
        described(
            "Put small files together once there are `small_files` of them, as `deltamirror optimize` does.",
            reload=Reload.LIVE,
            per_table=True,
        ),
    ] = False
    small_files: Annotated[
        int,
        COUNTING,
        described(
            "How many files that can be put together with others have to come to a table before it is optimized: files "
            "below its target size, and files with deletion vectors, since the last time.",
            unit="files",
            reload=Reload.LIVE,
            per_table=True,
        ),
    ] = 100
    batch_bytes: Annotated[
        int,
        MANY_BYTES,
        described(
            "How many bytes of files one commit replaces at most; the next one takes the others. A conflict costs at "
            "most this much work.",
            unit="bytes",
            reload=Reload.LIVE,
        ),
    ] = 1_073_741_824
    vacuum: Annotated[
        bool,
        described(
            "Delete data files that are past `delta.deletedFileRetentionDuration` of their table, as `deltamirror "
            "vacuum` does.",
            reload=Reload.LIVE,
            per_table=True,
        ),
    ] = False
    vacuum_interval: Annotated[
        float,
        POSITIVE,
        described("How often a table is vacuumed at most.", unit="s", reload=Reload.LIVE, per_table=True),
    ] = 86_400.0
    compact: Annotated[
        bool,
        described(
            "Put each `compact_commits` commits that no checkpoint has into a log compaction file as well "
            "(`X.Y.compacted.json`), which Delta Spark and Delta Kernel for Java read in their place.",
            reload=Reload.LIVE,
            per_table=True,
        ),
    ] = False
    compact_commits: Annotated[
        int,
        msgspec.Meta(ge=2, le=10_000),
        described("How many commits a log compaction file has.", unit="commits", reload=Reload.LIVE),
    ] = 10
    interval: Annotated[
        float,
        POSITIVE,
        described("How often a service looks which tables are due.", unit="s", reload=Reload.LIVE),
    ] = 60.0
    share: Annotated[
        float,
        SHARE,
        described(
            "How much of its time a service spends on maintenance, one table at a time: it rests after each commit.",
            unit="%",
            reload=Reload.LIVE,
        ),
    ] = 10.0
