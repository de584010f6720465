"""A change of one thing is a change of one place."""

import ast
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "deltamirror"
FEATURES = Path("delta", "features", "table.py")
ROW = """
    Feature("example", reader=True, requires=("domainMetadata",), by_column="example", row_duty="rows are good"),
"""

# A table whose column uses the feature: what its protocol becomes, and what an append to it has to say.
PROGRAM = """
from deltamirror import Add, Catalog
from deltamirror.errors import DeltaMirrorError

column = '{"name":"id","type":"long","nullable":true,"metadata":{"example":"yes"}}'
file = Add(path="a", partition_values={}, size=1, modification_time=1, data_change=True)
with Catalog("sqlite:///:memory:") as catalog:
    catalog.init()
    table = catalog.create_table("t", location="t", schema='{"type":"struct","fields":[%s]}' % column)
    protocol = table.snapshot().protocol
    print(*sorted(protocol.reader_features or ["none"]))
    print(*sorted(protocol.writer_features))
    try:
        table.append([file])
        print("appended")
    except DeltaMirrorError as error:
        print(error)
    with catalog.transaction(rows_checked=True) as tx:
        tx.append("t", [file])
    print(tx.result.versions)
try:
    with Catalog("sqlite:///:memory:") as catalog:
        catalog.init()
        print(catalog.create_table("t", location="t", schema="id long", features=["EXAMPLE"]).snapshot().version)
except DeltaMirrorError as error:
    print(error)
"""


def said_by(source: Path, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.requirement("R105")
def test_a_table_feature_is_one_row_in_one_module(tmp_path: Path) -> None:
    copy = tmp_path / "deltamirror"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    table = copy / FEATURES
    table.write_text(table.read_text().replace("_ROWS = (\n", f"_ROWS = ({ROW}", 1))

    readers, writers, refused, versions, by_name = said_by(tmp_path, tmp_path)
    assert readers == "example"
    assert {"domainMetadata", "example"} <= set(writers.split())
    assert "rows are good" in refused
    assert versions == "{'t': 1}"
    assert by_name == "0"


@pytest.mark.requirement("R105")
def test_without_its_row_a_feature_is_unknown_everywhere(tmp_path: Path) -> None:
    readers, writers, appended, _, by_name = said_by(PACKAGE.parent, tmp_path)
    assert readers == "none"
    assert "example" not in writers
    assert appended == "appended"
    assert "'EXAMPLE' is not one that we support" in by_name


@cache
def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text())


def texts(module: Path) -> list[str]:
    nodes = ast.walk(parsed(module))
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


@pytest.mark.requirement("R104")
def test_sql_is_written_in_one_package() -> None:
    statement = re.compile(r"\bSELECT\s.+\sFROM\s|\bINSERT INTO\s|\bDELETE FROM\s|\bUPDATE \w+ SET\s", re.DOTALL)
    # The tour shows a reader of the catalog how to ask it in SQL, and delta-rs is asked for rows in its own.
    homes = {"txnlog", "cli/tour.py", "deltalog/delta_rs.py"}
    found = {
        str(module.relative_to(PACKAGE))
        for module in PACKAGE.rglob("*.py")
        if any(statement.search(text) for text in texts(module))
    }
    assert not [module for module in found if module not in homes and module.split("/")[0] not in homes]
    assert any(module.startswith("txnlog/") for module in found)


def test_a_public_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
