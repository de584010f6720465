"""The settings of the status page and of the commit API."""

from typing import Annotated

import msgspec

from deltamirror.config.keys import MANY_BYTES, POSITIVE, Reload, described


class ServeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How `deltamirror serve` listens, who may read, and how much a commit may send."""

    listen: Annotated[
        str,
        described(
            "Address and port of the status page. Another address than loopback needs TLS, or `--insecure-http` "
            "behind a proxy that has it, and a token for every reader.",
            reload=Reload.START,
        ),
    ] = "127.0.0.1:8765"
    tls_cert: Annotated[
        str | None, described("The file of the certificate, with its chain, as PEM.", reload=Reload.START)
    ] = None
    tls_key: Annotated[str | None, described("The file of its private key, as PEM.", reload=Reload.START)] = None
    hosts: Annotated[
        str,
        described(
            "The names by which browsers reach the page, with commas between. On loopback, `localhost` and the "
            "address itself are always good, and no other name is; elsewhere, without a value, any name is.",
            reload=Reload.START,
        ),
    ] = ""
    loopback_read: Annotated[
        bool,
        described(
            "Whether processes of the same machine may read without a token. Say no where a proxy on this machine "
            "hands on the requests of others.",
            reload=Reload.START,
        ),
    ] = True
    behind_proxy: Annotated[
        bool,
        described(
            "Whether all requests come through a proxy that sets `X-Forwarded-For` and `X-Forwarded-Proto` itself: "
            "they then tell who asks, and whether by TLS. Otherwise nothing is made of them, since any client can "
            "send them. Every reader needs a token.",
            reload=Reload.START,
        ),
    ] = False
    commit_bytes: Annotated[
        int,
        MANY_BYTES,
        described(
            "The largest body of a request that commits: longer ones are refused (413).",
            unit="bytes",
            reload=Reload.LIVE,
        ),
    ] = 1_073_741_824
    create_below: Annotated[
        str,
        described(
            "Folders or buckets, with commas between, such as `s3://lake/sales, /data`: a table that a stock Delta "
            "Lake job creates below one of them is a table of the catalog from its first version on, named by its "
            "folders below it.",
            reload=Reload.LIVE,
        ),
    ] = ""
    import_below: Annotated[
        str,
        described(
            "Folders or buckets, with commas between: a Delta table below one of them that a stock Delta Lake job "
            "reads or writes, and that the catalog does not know, is imported then, named by its folders below it.",
            reload=Reload.LIVE,
        ),
    ] = ""
    publish: Annotated[
        bool,
        described(
            "Whether the server puts the objects of stock Delta Lake jobs, which otherwise put them themselves: for "
            "stores where jobs may not write to `_delta_log/`. The server then needs the keys of the store.",
            reload=Reload.LIVE,
        ),
    ] = False
    session: Annotated[
        float, POSITIVE, described("How long a browser stays signed in.", unit="s", reload=Reload.START)
    ] = 43_200.0
    refresh: Annotated[
        float, POSITIVE, described("How often an open page asks for what is new.", unit="s", reload=Reload.LIVE)
    ] = 5.0
