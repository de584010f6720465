"""What the figures were measured on."""

import os
import platform
import sqlite3
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

_PACKAGES = ("deltamirror", "deltalake", "psycopg", "duckdb", "sqlalchemy", "pyarrow", "msgspec")


def facts(*, postgresql: str) -> dict[str, str]:
    """Machine and versions, by name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {
        "machine": f"{os.cpu_count()} cores ({_cpu()}), {memory:.0f} GiB, {platform.system()} {platform.release()}",
        "disk": f"{sync_milliseconds():.2f} ms for a write of 4 KiB and its fdatasync (median)",
        "load": f"{os.getloadavg()[0]:.1f} before the run (1 minute)",
        "python": platform.python_version(),
        "postgresql": postgresql,
        "sqlite": sqlite3.sqlite_version,
        **{name: version(name) for name in _PACKAGES},
    }


def sync_milliseconds(repeats: int = 200) -> float:
    """What it costs to make one small write durable."""
    taken = []
    with tempfile.TemporaryFile() as probe:
        for _ in range(repeats):
            before = time.perf_counter()
            os.write(probe.fileno(), bytes(4096))
            os.fdatasync(probe.fileno())
            taken.append(time.perf_counter() - before)
    return statistics.median(taken) * 1e3


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
