"""``deltamirror init``."""

import click

from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.output import Lines, answer
from deltamirror.config import redact_url
from deltamirror.wiring import open_catalog


@click.command(epilog="Example: deltamirror init --catalog sqlite:///lake.db")
@with_invocation
def init(invocation: Invocation) -> None:
    """Create the catalog, or upgrade an older one.

    Running it again changes nothing. A database that holds other tables under our names is refused.
    """
    settings = invocation.lasting().settings
    with open_catalog(settings) as catalog:
        version = catalog.init()
    url = redact_url(settings.catalog.url)
    said = Lines((f"The catalog {url} is ready (schema version {version}).",))
    answer({"catalog": url, "schema_version": version}, said, json=invocation.json)
