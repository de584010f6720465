import subprocess
from pathlib import Path

import pytest

from tests.support.interfaces.commit_clients import UNTIMED, Writer, writer_of
from tests.support.interfaces.status_pages import Served
from tests.support.lakes.lake import create


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of localhost that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, *names, "-out", str(cert), "-keyout", str(key)], check=True, capture_output=True)
    return cert, key


@pytest.fixture
def page(served_page: Served) -> Served:
    """A server with two tables."""
    for name in ("sales.orders", "t"):
        create(served_page.catalog, name, properties=UNTIMED)
    return served_page


@pytest.fixture
def writer(page: Served) -> Writer:
    return writer_of(page)
