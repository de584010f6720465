"""A Spark Connect server, with a local Spark of two slots behind it that tries tasks as often as a cluster does."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers.ports import held_port
from tests.support.spark.programs import SparkProgram, answers


@dataclass(frozen=True)
class ConnectServer:
    """A server that a test can kill and start again at the same place."""

    program: SparkProgram
    port: int

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"sc://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self.program.start(lambda: answers(self.port))

    def kill(self) -> None:
        """End the server at once."""
        self.program.kill()


@contextmanager
def started_connect(folder: Path, environment: Mapping[str, str]) -> Iterator[ConnectServer]:
    """A server whose executors have this environment."""
    with held_port() as port:
        program = SparkProgram(_command(port), log=folder / "connect.log", environment=environment)
        server = ConnectServer(program, port)
        try:
            server.start()
            yield server
        finally:
            server.kill()


def _command(port: int) -> list[str]:
    options = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.python.daemon.module": "deltamirror.spark.daemon",
        "spark.ui.enabled": "false",
    }
    service = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--name", "connect"]
    confs = [text for name, value in options.items() for text in ("--conf", f"{name}={value}")]
    return ["spark-submit", "--master", "local[2,4]", *service, *confs, "spark-internal"]
