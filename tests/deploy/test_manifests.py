"""systemd units, images and manifests: not run here, but what can be known of them without is."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from deltamirror.cli import cli
from deltamirror.config import examine
from tests.support.servers.debian import installed

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = DEPLOY / "kubernetes"
COMPOSE = DEPLOY / "docker" / "compose.yml"
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"


def documents() -> list[dict[str, Any]]:
    """The objects that the kustomization names."""
    named = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["resources"]
    return [found for name in named for found in yaml.safe_load_all((MANIFESTS / name).read_text())]


def of_kind(kind: str) -> dict[str, Any]:
    [found] = [each for each in documents() if each["kind"] == kind]
    return dict(found)


def pods() -> dict[str, Any]:
    return dict(of_kind("Deployment")["spec"]["template"]["spec"])


def command_lines() -> Iterator[tuple[str, list[str]]]:
    for unit in UNITS:
        [line] = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
        yield unit.name, shlex.split(line)[1:]
    compose = yaml.safe_load(COMPOSE.read_text())["services"]
    yield from ((name, each["command"]) for name, each in compose.items() if each["image"] == "deltamirror")
    [command] = re.findall(r"^CMD (\[.*\])$", DOCKERFILE.read_text(), re.MULTILINE)
    yield "Dockerfile", yaml.safe_load(command)
    yield from ((each["name"], each["args"]) for each in (*pods()["initContainers"], *pods()["containers"]))


@pytest.mark.parametrize(("place", "words"), [pytest.param(*each, id=each[0]) for each in command_lines()])
def test_the_commands_are_commands_of_deltamirror(place: str, words: list[str]) -> None:
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None, place
    with command.make_context(words[0], list(words[1:])) as parsed:
        assert parsed.command is command


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_is_right_and_may_do_little(unit: Path, tmp_path: Path) -> None:
    """But for the program, which is not installed where the unit says."""
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/deltamirror/bin/deltamirror", "/bin/true"))
    tool = installed("systemd-analyze", package="systemd")
    verified = subprocess.run([tool, "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    rated = subprocess.run(
        [tool, "security", "--offline=true", "--threshold=20", "--no-pager", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert rated.returncode == 0, rated.stdout


def test_what_the_image_and_compose_copy_and_mount_is_there() -> None:
    ignored = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    kept = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE.read_text(), re.MULTILINE)
    for name in " ".join(copied).split():
        assert (ROOT / name).exists()
        assert name in kept
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    mounted = [volume.partition(":")[0] for each in services.values() for volume in each.get("volumes", [])]
    missing = [path for path in mounted if path.startswith(".") and not (COMPOSE.parent / path).resolve().exists()]
    assert not missing
    for each in services.values():
        assert set(each.get("depends_on", {})) <= set(services)


def test_pods_are_probed_and_restricted_and_have_bounds() -> None:
    spec = pods()
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["terminationGracePeriodSeconds"] > 60
    for container in (*spec["initContainers"], *spec["containers"]):
        own = container["securityContext"]
        assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["requests"]
        assert container["resources"]["limits"]["memory"]
        assert {mount["name"] for mount in container["volumeMounts"]} <= {each["name"] for each in spec["volumes"]}
    [container] = spec["containers"]
    paths = {name: container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}


def test_the_objects_of_kubernetes_refer_to_each_other() -> None:
    labels = of_kind("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert of_kind("Deployment")["spec"]["selector"]["matchLabels"] == labels
    assert of_kind("Service")["spec"]["selector"] == labels
    assert of_kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    named = [volume["configMap"]["name"] for volume in pods()["volumes"] if "configMap" in volume]
    assert named == [of_kind("ConfigMap")["metadata"]["name"]]
    [secret] = pods()["containers"][0]["envFrom"]
    assert secret["secretRef"]["name"] == of_kind("Secret")["metadata"]["name"]


def test_the_settings_of_kubernetes_are_settings(tmp_path: Path) -> None:
    file = tmp_path / "deltamirror.toml"
    file.write_text(of_kind("ConfigMap")["data"]["deltamirror.toml"])
    _, problems = examine(environment=of_kind("Secret")["stringData"], config=file)
    assert not problems


def test_guides_and_manifests_name_one_port_for_each_kind_of_service() -> None:
    """A probe or a scrape that was copied from a guide reaches the service that a manifest started."""
    named: dict[str, set[str]] = {"mirror": set(), "reconcile": set()}
    for file in (*(ROOT / "docs" / "guides").glob("*.md"), *(each for each in DEPLOY.rglob("*") if each.is_file())):
        lines = re.findall(r"(mirror|reconcile)\W+--follow.*?--listen\W+(?:\S+:)?([1-9][0-9]+)", file.read_text())
        for kind, port in lines:
            named[kind].add(port)
    assert named == {"mirror": {"9180"}, "reconcile": {"9181"}}
    [probed] = {*re.findall(r"path: /\w+, port: ([0-9]+)", (ROOT / "docs" / "guides" / "health.md").read_text())}
    assert probed == "9180"
