"""``deltamirror serve``: the status page, the same numbers as JSON, and the commit API for writers."""

import click
import msgspec
from msgspec.structs import replace

from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.output import Lines, answer
from deltamirror.cli.signals import reloading, stopped_by_signals
from deltamirror.config import redact_url
from deltamirror.errors import MissingExtra
from deltamirror.wiring import open_catalog, open_engine

try:
    from deltamirror.web.pages.addresses import binding_of
    from deltamirror.web.pages.server import Serving, serving
except ModuleNotFoundError as _missing:
    raise MissingExtra(
        f"the status page needs {_missing.name}", hint="install deltamirror[server]", extra="server"
    ) from _missing


@click.command(epilog="Example: deltamirror serve --listen 127.0.0.1:8765")
@click.option("--listen", metavar="[HOST:]PORT", help="Where to listen, over the setting serve.listen.")
@click.option(
    "--insecure-http",
    is_flag=True,
    help="Listen beyond this machine without TLS: behind a proxy that has it. Every reader then needs a token.",
)
@with_invocation
def serve(invocation: Invocation, *, listen: str | None, insecure_http: bool) -> None:
    """Serve the status page, its numbers as JSON, and the commit API.

    On loopback, processes of this machine read without a token; an operator who pauses, resumes, repairs or
    silences signs in with one that `deltamirror token issue` made; a writer that commits shows one in every
    request. Beyond loopback there has to be TLS (serve.tls_cert, serve.tls_key), and every reader needs a token.
    Changed settings are in force within config.reload, or at once after SIGHUP, but for those of [serve] that say
    otherwise. SIGTERM or Ctrl-C ends it.
    """
    live = invocation.on_runner("local", None).live()
    with reloading(live), open_catalog(live) as catalog, open_engine(live, catalog.database) as engine:
        catalog.check()
        chosen = engine.settings.serve if listen is None else replace(engine.settings.serve, listen=listen)
        with serving(engine, binding_of(chosen, insecure_http=insecure_http), catalog) as served:
            url = redact_url(engine.settings.catalog.url)
            click.echo(_started(served, url, json=invocation.json), err=True)
            with stopped_by_signals(served.listener.stop, quiet=True):
                served.listener.wait()
    answer({"stopped": True}, Lines(("Stopped.",)), json=invocation.json)


def _started(served: Serving, catalog: str, *, json: bool) -> str:
    binding = served.binding
    if json:
        started = {"catalog": catalog, "url": served.url, "reads_without_token": binding.reads_without_token}
        return msgspec.json.encode({"started": started}).decode()
    who = "processes of this machine read" if binding.reads_without_token else "readers need a token"
    return f"The status page of {catalog} is at {served.url} ({who}). SIGTERM or Ctrl-C ends it."
