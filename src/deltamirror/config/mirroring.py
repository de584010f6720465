"""The settings of the mirror: what it publishes, how much at once, and where it runs."""

from typing import Annotated, Literal

import msgspec

from deltamirror.config.keys import (
    COUNTING,
    FACTOR,
    MANY_BYTES,
    NOT_NEGATIVE,
    PERCENT,
    POSITIVE,
    SHARE,
    Reload,
    described,
)


class MirrorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How commits are published to `_delta_log/`."""

    enabled: Annotated[
        bool,
        described(
            "Publish commits. Switched off, they wait in the database, and nothing is written to `_delta_log/`; "
            "switched on again, a table goes on with its first version that is not published.",
            reload=Reload.LIVE,
            per_table=True,
        ),
    ] = True
    runner: Annotated[
        Literal["spark", "local"],
        described(
            "Where the work of a pass runs: on Spark, or in threads of the service's own process.",
            reload=Reload.START,
        ),
    ] = "spark"
    batch_versions: Annotated[
        int,
        COUNTING,
        described(
            "How many versions of a table are published as one unit of work.", unit="versions", reload=Reload.LIVE
        ),
    ] = 100
    batch_tables: Annotated[
        int, COUNTING, described("How many tables a pass takes on.", unit="tables", reload=Reload.LIVE)
    ] = 64
    batch_bytes: Annotated[
        int,
        COUNTING,
        described(
            "How many bytes of commits one unit of work holds; a commit that is larger is a unit of its own.",
            unit="bytes",
            reload=Reload.LIVE,
        ),
    ] = 32 * 1024 * 1024
    concurrency: Annotated[
        int,
        COUNTING,
        described(
            "How many jobs run at once. The tables of one store share a job, so that a store that hangs delays its own "
            "tables only.",
            unit="jobs",
            reload=Reload.LIVE,
        ),
    ] = 4
    threads: Annotated[
        int,
        COUNTING,
        described("How many units one task works on at once.", unit="threads", reload=Reload.LIVE),
    ] = 8
    poll: Annotated[
        float,
        POSITIVE,
        described(
            "How often the service looks for commits. Where PostgreSQL tells it of them at once, it looks up to four "
            "times less often, but every 2 s.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = 0.5
    lease: Annotated[
        float,
        POSITIVE,
        described(
            "How long a service that died keeps others from its tables. A living one renews it; one that is told to "
            "stop is gone within it.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = 60.0
    budget: Annotated[
        float,
        POSITIVE,
        described(
            "How long a unit may work before it hands in what it has done; the rest is another unit's. On Spark, units "
            "of one job hand in after a second.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = 20.0
    verify: Annotated[
        Literal["off", "basic", "strict", "paranoid"],
        described(
            "What is checked of a commit. `off`: nothing; `basic`: its shape and digest, before it is published; "
            "`strict`: also the rules of its actions before, and its bytes read back after; `paranoid`: also what "
            "delta-rs (`pip install 'deltamirror[delta-rs]'`) makes of the newest version of each unit of work, and of "
            "each checkpoint.",
            reload=Reload.LIVE,
            per_table=True,
        ),
    ] = "basic"
    checksums: Annotated[
        bool,
        described("Write the version checksums `N.crc` that readers start from.", reload=Reload.LIVE, per_table=True),
    ] = True
    attempts: Annotated[
        int,
        COUNTING,
        described(
            "How often a version, or a checkpoint, is tried before it is escalated. It is tried on all the same.",
            unit="attempts",
            reload=Reload.LIVE,
        ),
    ] = 5
    retry_base: Annotated[
        float,
        POSITIVE,
        described("The pause after the first failure of a version.", unit="s", reload=Reload.LIVE),
    ] = 1.0
    retry_factor: Annotated[
        float,
        FACTOR,
        described("How much longer each pause is than the one before it.", unit="times", reload=Reload.LIVE),
    ] = 2.0
    retry_max: Annotated[
        float,
        POSITIVE,
        described(
            "The longest pause after a failure that may pass: transient, throttled, unavailable, capacity.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = 30.0
    retry_jitter: Annotated[
        float,
        PERCENT,
        described(
            "How much of a pause is left to chance, up or down, so that tables which failed together do not come "
            "back together.",
            unit="%",
            reload=Reload.LIVE,
        ),
    ] = 10.0
    retry_permanent: Annotated[
        float,
        POSITIVE,
        described(
            "The pause after a failure that no retry cures. A commit to the table, or a recovery in its store, ends it "
            "after `retry_max`.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = 3600.0
    inline: Annotated[
        bool,
        described(
            "Publish small commits in the writer's own process, right after COMMIT. The service publishes the "
            "commits that fail.",
            reload=Reload.OPEN,
        ),
    ] = False
    inline_timeout: Annotated[
        float,
        POSITIVE,
        described("How long a writer waits for its own publishing.", unit="s", reload=Reload.LIVE),
    ] = 2.0
    inline_bytes: Annotated[
        int,
        COUNTING,
        described("The largest commit that a writer publishes itself.", unit="bytes", reload=Reload.LIVE),
    ] = 1024 * 1024


class CheckpointSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When checkpoints are written, and how."""

    enabled: Annotated[bool, described("Write checkpoints at all.", reload=Reload.LIVE)] = True
    interval: Annotated[
        Annotated[int, COUNTING] | None,
        described(
            "A checkpoint at every version that this number divides, unless the table says `delta.checkpointInterval`. "
            "Without a value it is 10, as for Delta Lake on Spark.",
            unit="versions",
            reload=Reload.LIVE,
            per_table=True,
        ),
    ] = None
    bytes: Annotated[
        int,
        MANY_BYTES,
        described(
            "Also a checkpoint as soon as the commits since the last one have this many bytes, unless the table says "
            "`deltamirror.checkpointBytes`; 0: only the interval counts.",
            unit="bytes",
            reload=Reload.LIVE,
            per_table=True,
        ),
    ] = 100 * 1024 * 1024
    compression: Annotated[
        Literal["snappy", "zstd"], described("How the Parquet file is compressed.", reload=Reload.LIVE, per_table=True)
    ] = "zstd"
    row_group_bytes: Annotated[
        int,
        COUNTING,
        described(
            "The largest row group of the Parquet file, before compression.",
            unit="bytes",
            reload=Reload.LIVE,
            per_table=True,
        ),
    ] = 32 * 1024 * 1024
    sidecar_actions: Annotated[
        int,
        COUNTING,
        described(
            "How many file actions one sidecar of a V2 checkpoint holds; for tables with `delta.checkpointPolicy=v2`.",
            unit="actions",
            reload=Reload.LIVE,
            per_table=True,
        ),
    ] = 50_000
    concurrency: Annotated[
        int,
        NOT_NEGATIVE,
        described(
            "How many jobs write checkpoints at once, beside the commits; small checkpoints of a store share a job.",
            unit="jobs",
            reload=Reload.LIVE,
        ),
    ] = 1
    share: Annotated[
        float,
        SHARE,
        described(
            "How much of its time a service spends on checkpoints; of those of a table that become due meanwhile, the "
            "newest is written. A table with five intervals of commits behind its newest checkpoint does not wait. "
            "100: no table does.",
            unit="%",
            reload=Reload.LIVE,
        ),
    ] = 20.0
    lease: Annotated[
        float,
        POSITIVE,
        described("How long a service that died keeps others from writing a checkpoint.", unit="s", reload=Reload.LIVE),
    ] = 300.0


class BreakerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When the circuit of a store opens, and when it is probed. All services that share a catalog know it at once."""

    enabled: Annotated[bool, described("Open the circuits of stores that are down.", reload=Reload.LIVE)] = True
    failures: Annotated[
        int,
        COUNTING,
        described(
            "After how many failures in a row the circuit of a store opens: the tables that fail are held back.",
            unit="failures",
            reload=Reload.LIVE,
        ),
    ] = 5
    share: Annotated[
        float,
        PERCENT,
        described(
            "How many of the store's tables have to fail before its circuit opens, of those that fail or were served "
            "before: fewer are in trouble of their own.",
            unit="%",
            reload=Reload.LIVE,
        ),
    ] = 75.0
    successes: Annotated[
        int,
        COUNTING,
        described(
            "How many versions or checkpoints the store has to take in a row, one unit of work after the other, before "
            "all tables go on.",
            unit="successes",
            reload=Reload.LIVE,
        ),
    ] = 3
    pause: Annotated[
        float,
        POSITIVE,
        described(
            "How long a circuit stays open before one unit of work tries the store.", unit="s", reload=Reload.LIVE
        ),
    ] = 30.0


class ReconcileSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a service compares the logs with what it published, beside its other work."""

    interval: Annotated[
        float,
        NOT_NEGATIVE,
        described(
            "How often the log of each table is looked at, by whichever service has its turn; less often where there "
            "are so many logs that it would take more than some hundredths of a processor. 0: never.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = 30.0
    sample: Annotated[
        int,
        NOT_NEGATIVE,
        described(
            "How many commits of a log are read each time, one after the other, beside those that look suspicious in a "
            "listing.",
            unit="objects",
            reload=Reload.LIVE,
        ),
    ] = 10
    reread_days: Annotated[
        float,
        NOT_NEGATIVE,
        described(
            "Within how many days every object of every log is read again and compared with its digest, a few at each "
            "look, whatever their size and time. 0: only `sample` counts.",
            unit="days",
            reload=Reload.LIVE,
        ),
    ] = 30.0


class CleanupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a service deletes, after a checkpoint, what is past its retention by the properties of its table."""

    enabled: Annotated[
        bool,
        described(
            "Delete what is older than `delta.logRetentionDuration` of its table (30 days), unless the table has "
            "`delta.enableExpiredLogCleanup=false`. Without it only `deltamirror clean` does.",
            reload=Reload.LIVE,
            per_table=True,
        ),
    ] = True
    interval: Annotated[
        float,
        NOT_NEGATIVE,
        described("How often the log of a table is cleaned at most.", unit="s", reload=Reload.LIVE),
    ] = 3600.0


class HistorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long the database keeps the versions of a table, whose log keeps them by the properties of the table."""

    keep: Annotated[
        Annotated[float, NOT_NEGATIVE] | None,
        described(
            "For how many days versions are kept, counted back to midnight (UTC); versions that the log holds stay. "
            "After a checkpoint, a service prunes older ones: they cannot be read, restored or streamed any more. "
            "Without a value the database keeps every version.",
            unit="days",
            reload=Reload.LIVE,
            per_table=True,
        ),
    ] = None


class HealthSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When `/healthz`, `/readyz` and `deltamirror health` say that something is wrong."""

    stalled: Annotated[
        float,
        POSITIVE,
        described(
            "After how long without progress work counts as stalled: a job without an outcome, commits that are due "
            "and not published, a log that the reconciler does not get past.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = 600.0
    timeout: Annotated[
        float,
        POSITIVE,
        described(
            "How long the database, a store or Spark may take to answer a check; later counts as no answer.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = 2.0


class SparkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The Spark that the mirror runs on. Everything else about it comes from Spark's own configuration."""

    master: Annotated[
        str,
        described(
            "`local[*]`, a cluster such as `spark://host:7077`, or a Spark Connect server such as `sc://host:15002`.",
            reload=Reload.START,
        ),
    ] = "local[*]"
    lines: Annotated[
        Literal["auto", "carried", "fetched"],
        described(
            "How executors get the commits: carried by the job, or fetched from the database by each of them. `auto` "
            "fetches from PostgreSQL and carries from SQLite and DuckDB, which only the driver can reach.",
            reload=Reload.START,
        ),
    ] = "auto"
