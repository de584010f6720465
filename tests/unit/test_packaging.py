"""What an installed deltamirror is made of, and what the repository promises about its set-up."""

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import entry_points, requires, version
from pathlib import Path

import pytest

from deltamirror.spark.logstore import log_store_jar

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
AZURITE = ROOT / "tests" / "azurite"


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, env=environment or None, capture_output=True, text=True, check=False)


def test_the_installed_version_is_the_one_of_the_project() -> None:
    assert version("deltamirror") == PROJECT["version"]


def test_the_command_is_installed() -> None:
    (command,) = entry_points(group="console_scripts", name="deltamirror")
    assert command.value == "deltamirror.cli:main"
    assert callable(command.load())


def test_heavy_libraries_are_extras() -> None:
    core = [line for line in requires("deltamirror") or [] if "extra ==" not in line]
    assert not [line for line in core if re.match(r"pyspark|psycopg|duckdb|adbc|deltalake", line)]


def test_every_extra_is_in_all() -> None:
    (everything,) = PROJECT["optional-dependencies"]["all"]
    named = everything.removeprefix("deltamirror[").removesuffix("]").split(",")
    assert named == sorted(PROJECT["optional-dependencies"].keys() - {"all"})


def test_the_package_is_importable_without_any_extra() -> None:
    blocked = ["adbc_driver_postgresql", "deltalake", "duckdb", "duckdb_engine", "pandas", "psycopg", "pyspark"]
    program = f"import sys; sys.modules.update(dict.fromkeys({blocked})); import deltamirror, deltamirror.cli"
    done = run(sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_locked_dependency_has_a_version_and_hashes_and_no_address(lock: Path) -> None:
    text = lock.read_text()
    entries = re.split(r"\n(?=[a-z])", text.strip())
    assert entries
    assert not [entry for entry in entries if "==" not in entry or "--hash=sha256:" not in entry]
    assert "://" not in text
    assert "--index" not in text


def test_the_locks_hold_everything_that_the_project_asks_for() -> None:
    locked = {line.partition("==")[0] for line in (ROOT / "requirements" / "dev.txt").read_text().splitlines()}
    extras = [name for names in PROJECT["optional-dependencies"].values() for name in names]
    asked = {re.split(r"[^\w-]", name)[0] for name in PROJECT["dependencies"] + extras}
    assert asked - {"deltamirror"} <= locked


def test_every_locked_package_of_the_azure_server_has_a_version_and_a_hash_and_no_address() -> None:
    asked = json.loads((AZURITE / "package.json").read_text())["dependencies"]
    packages = json.loads((AZURITE / "package-lock.json").read_text())["packages"]
    assert packages.pop("")["dependencies"] == asked
    assert packages["node_modules/azurite"]["version"] == asked["azurite"]
    assert not [name for name, package in packages.items() if not package["version"]]
    assert not [name for name, package in packages.items() if not package["integrity"].startswith("sha512-")]
    assert not [name for name, package in packages.items() if "resolved" in package]


def test_the_set_up_installs_the_azure_server() -> None:
    done = run("make", "--dry-run", "setup", "VENV=no-such-folder")
    assert done.returncode == 0, done.stderr
    assert "scripts/azurite.py install" in done.stdout


def test_the_set_up_builds_the_log_store() -> None:
    done = run("make", "--dry-run", "--always-make", "setup", "VENV=no-such-folder")
    assert done.returncode == 0, done.stderr
    assert "sh scripts/logstore.sh" in done.stdout


def test_a_missing_jdk_is_one_sentence(tmp_path: Path) -> None:
    for program in ("id", "dirname"):
        (tmp_path / program).symlink_to(f"/usr/bin/{program}")
    done = run("/bin/sh", "scripts/logstore.sh", PATH=str(tmp_path))
    assert done.returncode != 0
    assert re.fullmatch(r"deltamirror needs javac \(Java 17 or later\) and mvn .*\.\n", done.stderr)


def test_the_log_store_is_built_for_the_release_of_the_project_and_takes_nothing_along() -> None:
    pom = (ROOT / "logstore" / "pom.xml").read_text()
    assert f"<version>{PROJECT['version']}</version>" in pom
    assert pom.count("<dependency>") == pom.count("<scope>provided</scope>") > 0
    with zipfile.ZipFile(log_store_jar()) as jar:
        packages = {str(Path(name).parent) for name in jar.namelist() if name.endswith(".class")}
    assert packages == {"io/deltamirror/spark"}


def test_a_missing_java_is_one_sentence(tmp_path: Path) -> None:
    done = run("/bin/sh", "scripts/check_java.sh", JAVA_HOME=str(tmp_path))
    assert done.returncode != 0
    assert re.fullmatch(r"deltamirror needs Java 17 or later .*\.\n", done.stderr)


@pytest.mark.parametrize(
    ("printed", "accepted"), [("1.8.0_402", False), ("11.0.2", False), ("17", True), ("21.0.1", True)]
)
def test_java_17_or_later_is_needed(tmp_path: Path, printed: str, accepted: bool) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{printed}\" 2024-01-16' >&2\n")
    java.chmod(0o755)
    done = run("/bin/sh", "scripts/check_java.sh", JAVA_HOME=str(tmp_path), PATH="/usr/bin:/bin")
    assert (done.returncode == 0) is accepted
    assert (printed in done.stderr) is not accepted


def test_a_python_that_is_too_old_is_one_sentence(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.10.1\n')
    python.chmod(0o755)
    done = run("/bin/sh", "scripts/find_python.sh", PYTHON=str(python), PATH="/usr/bin:/bin")
    assert done.returncode != 0
    assert re.fullmatch(r"deltamirror needs Python 3\.11, .* found Python 3\.10\.1: .*\.\n", done.stderr)


def test_every_target_of_the_makefile_explains_itself() -> None:
    done = run("make", "--no-print-directory", "help")
    listed = set(re.findall(r"^  make ([a-z-]+) +\S", done.stdout, re.MULTILINE))
    assert listed >= {"bench", "check", "clean", "demo", "format", "help", "lock", "test"}
