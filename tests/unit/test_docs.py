"""What the documents say is so: their code runs, and what they name is there."""

import doctest
import importlib
import inspect
import pkgutil
import re
import shlex
import sqlite3
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

import deltamirror
from deltamirror import Catalog
from deltamirror.cli import cli
from deltamirror.delta.conflicts import ConflictKind
from deltamirror.delta.validation import RULES
from deltamirror.txnlog.database.schema import METADATA

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "deltamirror"
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(deltamirror.__path__, "deltamirror.")
    if not module.name.endswith("__main__")
)
README = "README.md"
WRITING = "docs/guides/writing.md"
MIRRORING = "docs/guides/mirroring.md"
SCHEMA = "docs/guides/schema.md"
DATA_MODEL = "docs/data-model.md"


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text_of(document), re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, in which documents work."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.requirement("R96")
@pytest.mark.requirement("R100")
@pytest.mark.parametrize("document", [README, WRITING, MIRRORING, SCHEMA])
def test_the_python_of_a_document_runs_as_it_stands(folder: Path, document: str) -> None:
    code = "\n".join(blocks(document, "python"))
    assert code
    namespace: dict[str, object] = {}
    exec(compile(code, document, "exec"), namespace)  # noqa: S102 -- the document's own code
    catalog = namespace["catalog"]
    assert isinstance(catalog, Catalog)
    catalog.close()


def test_the_python_of_the_readme_needs_an_install_without_extras_and_is_read_by_delta_rs(folder: Path) -> None:
    [code] = blocks(README, "python")
    namespace: dict[str, Any] = {}
    exec(compile(code, README, "exec"), namespace)  # noqa: S102 -- the document's own code
    namespace["catalog"].close()
    packages = set(re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE))
    assert packages == {"pyarrow", "deltamirror"}
    assert DeltaTable("lake/orders").to_pyarrow_table().num_rows == 2


def test_the_commands_of_the_readme_run_as_they_stand(folder: Path) -> None:
    [commands] = blocks(README, "sh")
    (folder / "actions.jsonl").write_text("".join(blocks(README, "json")))
    for line in commands.splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "deltamirror"
        done = CliRunner().invoke(cli, arguments)
        assert done.exit_code == 0, f"{line}\n{done.output}"


def test_the_readme_is_short() -> None:
    assert len(text_of(README).splitlines()) <= 130


def guarantees() -> dict[str, list[str]]:
    """The guarantees of the README, with the files that they link."""
    rows = re.findall(r"^\| (G\d+) \|.*\|(.*)\|$", text_of(README), re.MULTILINE)
    return {name: re.findall(r"\]\(([^)#]+)", shown_by) for name, shown_by in rows}


def test_the_readme_lists_every_guarantee() -> None:
    assert list(guarantees()) == [f"G{number}" for number in range(1, 12)]


@pytest.mark.parametrize("name", guarantees())
def test_a_guarantee_is_linked_to_tests_that_say_that_they_prove_it(name: str) -> None:
    """By its name in the file, or by the mark of the requirement that names it."""
    requirements = tomllib.loads(text_of("docs/requirements.toml"))["rows"]
    marks = [f'requirement("{row}")' for row, text in requirements.items() if f"({name})" in text]
    links = guarantees()[name]
    assert any(link.startswith("tests/") for link in links)
    for link in links:
        text = text_of(link)
        assert re.search(rf"\b{name}\b", text) or any(mark in text for mark in marks), link


def test_errors_send_their_readers_to_documents_that_are_there() -> None:
    sources = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    named = {name for source in sources for name in re.findall(r"docs/[\w/.-]+\.md", source)}
    assert "docs/reference/actions.md" in named
    assert not [name for name in named if not (ROOT / name).exists()]
    assert not [source for source in sources if "see the reference" in source or 'in the reference"' in source]


def test_the_sql_of_the_data_model_runs_and_finds_what_it_says(folder: Path) -> None:
    namespace: dict[str, Any] = {}
    exec("\n".join(blocks(WRITING, "python")), namespace)  # noqa: S102 -- tables to ask about
    namespace["catalog"].close()
    with sqlite3.connect(folder / "lake.db") as connection:
        files, pending, lags, applications = [
            connection.execute(query.replace("sales.orders", "orders").replace("12", "1")).fetchall()
            for query in blocks(DATA_MODEL, "sql")
        ]
        [head] = connection.execute("SELECT version FROM dl_heads").fetchone()
    connection.close()
    assert sorted(path for path, _ in files) == ["day=2024-05-01/a.parquet", "day=2024-05-02/b.parquet"]
    assert [(name, count) for name, count, _ in pending] == [("orders", head + 1)]
    assert lags == []
    assert applications == [("orders", "streaming-job", 1)]


def test_the_data_model_names_every_table_and_no_other() -> None:
    named = set(re.findall(r"`(dl_\w+)[`.]", text_of(DATA_MODEL)))
    assert named == {*METADATA.tables, "dl_file_intervals"}


def test_the_guide_explains_every_reason_of_a_conflict() -> None:
    explained = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", section_of(WRITING, "Conflicts")))
    source = "".join(path.read_text() for path in (PACKAGE / "txnlog").rglob("*.py"))
    assert explained == {*ConflictKind, *re.findall(r'(?<=reason=)"([a-z-]+)"', source), "version-ahead"}


def test_the_guide_explains_every_rule_for_changes_of_a_table() -> None:
    explained = set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", section_of(WRITING, "Changing a table")))
    rules = {rule.removeprefix("metaData.change.") for rule in RULES if rule.startswith("metaData.change.")}
    assert rules <= explained


def section_of(document: str, title: str) -> str:
    return text_of(document).partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def paths_in(document: str) -> Iterator[str]:
    for span in re.findall(r"`([\w./-]+)`", text_of(document)):
        if span.startswith(("tests/", "docs/", "scripts/", "requirements/")) or span.endswith((".py", ".md", ".toml")):
            yield span


@pytest.mark.requirement("R109")
@pytest.mark.parametrize(
    "document",
    ["CONTRIBUTING.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))],
)
def test_the_files_that_a_document_names_are_there(document: str) -> None:
    created = {"deltamirror.toml"}
    missing = [p for p in paths_in(document) if not any((base / p).exists() for base in (ROOT, PACKAGE))]
    assert not set(missing) - created


@pytest.mark.requirement("R109")
def test_the_architecture_names_the_home_of_each_part_and_of_its_tests() -> None:
    table = text_of("docs/architecture.md").partition("## Where things are")[2]
    rows = [row.split("|")[1:-1] for row in table.splitlines() if row.startswith("| ") and "`" in row]
    homes = {what.strip(): (home, tests) for what, home, tests in rows}
    assert all("tests/" in tests for _, tests in homes.values())
    for part in ("the writer", "the mirror", "status", "conformance"):
        assert any(part in what for what in homes), part


@pytest.mark.requirement("R109")
def test_the_layers_of_the_architecture_are_those_of_the_package_and_of_the_import_contract() -> None:
    section = text_of("docs/architecture.md").partition("## Layers")[2].partition("\n## ")[0]
    explained = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    contracts = tomllib.loads(text_of("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract.get("containers") == ["deltamirror"]]
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert set(explained) == there - {"__init__"}
    assert set(explained) == {name for layer in layers for name in re.findall(r"\w+", layer)}


@pytest.mark.requirement("R109")
def test_commands_get_what_they_work_with_from_wiring() -> None:
    constructed = re.compile(r"(?<![\w.\"`])(?:Catalog|MirrorEngine|TableImporter|Logs|SqlTxnLogWriter)\(")
    modules = [path for path in (PACKAGE / "cli").rglob("*.py") if constructed.search(path.read_text())]
    assert [path.name for path in modules] == ["tour.py"]  # which shows what programs write


@pytest.mark.requirement("R109")
def test_the_modules_that_the_architecture_explains_are_there() -> None:
    section = text_of("docs/architecture.md").partition("module by module")[2].partition("\n## ")[0]
    named = [name for row in section.splitlines() for name in re.findall(r"`(\w+)`", row.partition(" | ")[0])]
    assert len(named) > 15
    assert all(f"deltamirror.delta.{name}" in MODULES for name in named)


@pytest.mark.requirement("R96")
@pytest.mark.parametrize(
    "name", [name for name in MODULES if ">>>" in inspect.getsource(importlib.import_module(name))]
)
def test_the_examples_of_docstrings_run(folder: Path, name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert tried
    assert not failed


def undocumented(name: str, value: object) -> Iterator[str]:
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return
    if not inspect.getdoc(value):
        yield name
    if inspect.isclass(value) and (value.__module__ or "").startswith("deltamirror"):
        for member, content in vars(value).items():
            called = content.fget if isinstance(content, property) else getattr(content, "__func__", content)
            if not member.startswith("_") and inspect.isfunction(called) and not inspect.getdoc(getattr(value, member)):
                yield f"{name}.{member}"


def own_names(module: ModuleType) -> list[str]:
    """The names without an underscore of what a module defines itself."""
    own = {name: getattr(value, "__module__", None) == module.__name__ for name, value in vars(module).items()}
    return [name for name, is_own in own.items() if is_own and not name.startswith("_")]


@pytest.mark.requirement("R96")
def test_every_public_name_is_documented() -> None:
    missing = []
    for module in map(importlib.import_module, ["deltamirror", *MODULES]):
        missing += [] if module.__doc__ else [module.__name__]
        for name in getattr(module, "__all__", None) or own_names(module):
            missing += undocumented(f"{module.__name__}.{name}", getattr(module, name))
    assert not missing
