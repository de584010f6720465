"""The routes of the commit API. Every request shows a token; its rights and tables decide what it may do.

A commit is sent with a key of its own (``Idempotency-Key``): the same request with the same key, whichever server it
reaches and however often, is one commit, and gets the same answer.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import IO, Any, Final, Protocol, TypeAlias

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Scope

from deltamirror.catalog import Catalog, Committed
from deltamirror.delta.action_lines import ActionLines
from deltamirror.delta.actions import Action
from deltamirror.delta.lines import read_ndjson
from deltamirror.errors import InvalidInput, NotFound
from deltamirror.ops.engine import MirrorEngine
from deltamirror.ops.imports.first_contact import FirstContact, Offer
from deltamirror.txnlog.access.tokens import AccessToken, Right
from deltamirror.txnlog.tables.registry import TableInfo
from deltamirror.web.commits.bodies import (
    FRAMES,
    NDJSON,
    Part,
    ReadPart,
    frame_head,
    framed_parts,
    part_lines,
    require_one_version,
    spooled,
)
from deltamirror.web.commits.description import Publisher, description
from deltamirror.web.listener import grant_time, keep_connection
from deltamirror.web.pages.asked import number_of
from deltamirror.web.pages.identity import Doorkeeper, Forbidden
from deltamirror.web.problems import problem

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 16
"""Commits that are under way, beside the threads of the pages."""
_LONGEST: Final = 600.0
"""How long a request of a writer may last, in seconds: a large commit takes longer than a page."""
_MOST_VERSIONS: Final = 1_000
_MOST_BYTES: Final = 64 * 1024 * 1024
"""An answer ends with the version that reaches this; the client asks for the next ones again."""
_LONGEST_KEY: Final = 200
_SMALL_BODY: Final = 64 * 1024
_PLAIN: Final = "identity"
_READERS: Final = (Right.READ, Right.WRITE)
_WRITERS: Final = (Right.WRITE,)


Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
Parts: TypeAlias = Callable[[Request, IO[bytes]], Sequence[Part | ReadPart]]
"""Finds the parts of a body."""


class InThread(Protocol):
    """Does work that asks the database, in one of a few threads."""

    async def __call__(
        self, work: Callable[..., Response], *arguments: Any, threads: anyio.CapacityLimiter | None = None
    ) -> Response:
        """The answer of the work."""


def bounds_its_body(scope: Scope) -> bool:
    """Whether a request is one whose body may be large: it is bounded once the token was looked at."""
    path: str = scope["path"]
    in_table = path.startswith("/api/v1/tables/") and (path.endswith("/commits") or "/commits/" in path)
    return scope["method"] == "POST" and (path in ("/api/v1/commits", "/api/v1/tables") or in_table)


class CommitApi:
    """The API of one catalog."""

    def __init__(self, catalog: Catalog, doorkeeper: Doorkeeper, engine: MirrorEngine, in_thread: InThread) -> None:
        self._catalog, self._doorkeeper, self._engine, self._in_thread = catalog, doorkeeper, engine, in_thread
        self._first_contact = FirstContact(catalog, engine.live)
        self._committers = anyio.CapacityLimiter(_AT_ONCE)

    def routes(self) -> list[Route]:
        """All routes, those with more names in their paths before the others."""
        both = ["GET", "POST"]  # one route a path: the refusal of another method then names all that there are
        return [
            Route("/api/v1/openapi.json", self._description),
            Route("/api/v1/commits", self._several, methods=["POST"]),
            Route("/api/v1/tables", _either(self._read(self._located, "location"), self._new_table), methods=both),
            Route("/api/v1/tables/{name}/head", self._read(self._head)),
            Route(
                "/api/v1/tables/{name}/commits",
                _either(self._read(self._range, "from", "to"), self._one),
                methods=both,
            ),
            Route("/api/v1/tables/{name}/publish", self._publish, methods=["POST"]),
            Route("/api/v1/tables/{name}/commits/{version}", _either(self._read(self._file), self._one), methods=both),
        ]

    async def _description(self, _: Request) -> Response:
        return _json(description())

    # Commits

    async def _one(self, request: Request) -> Response:
        """Commit a body to one table: lines as exactly one version, or actions as whichever comes next."""
        return await self._received(request, _whole_body)

    async def _several(self, request: Request) -> Response:
        """Commit the frames of a body, each to its table: all of them, or none."""
        return await self._received(request, _frames_of_body)

    async def _received(self, request: Request, parts: Parts) -> Response:
        """Look at the token before a large body is taken, and commit when all of it is there."""
        if not _is_small(request):
            await self._in_thread(self._admitted, request)
            grant_time(request.scope, _LONGEST)
        async with spooled(request, self._engine.settings.serve.commit_bytes) as file:
            grant_time(request.scope, _LONGEST)  # all of it is there: the rest is for us to do
            return await self._in_thread(self._committed, request, file, parts, threads=self._committers)

    def _admitted(self, request: Request) -> Response:
        """Refuse a writer before anything is read of what it sends."""
        self._writer_of(request)
        return Response()

    def _writer_of(self, request: Request) -> AccessToken:
        writer = self._bearer(request, _WRITERS)
        if (name := request.path_params.get("name")) is not None:
            _require_covered(writer, name)
        _key_of(request)
        _require_plain(request)
        return writer

    def _committed(self, request: Request, file: IO[bytes], parts: Parts) -> Response:
        writer, asked = self._writer_of(request), parts(request, file)
        for part in asked:
            _require_covered(writer, part.table)
        _require_distinct(asked)
        transaction = self._catalog.transaction(
            token=_key_of(request),
            operation=_operation_of(request, asked),
            rows_checked=_are_rows_checked(request, asked),
        )
        with transaction as tx, ExitStack() as named:
            for part in asked:
                match part:
                    case ReadPart():
                        tx.read(part.table, version=part.version)
                    case Part(version=None):
                        lines = ActionLines(part_lines(file, part), part.table)
                        named.enter_context(lines.named_in_errors(of_table=part.table))
                        if part.read_version is not None:
                            tx.read(part.table, version=part.read_version)
                        tx.stage(part.table, _some(read_ndjson(lines, source=part.table), part.table))
                    case Part(version=int(version)):
                        tx.stage_lines(part.table, part_lines(file, part), at_version=version)
            committed = tx.commit()
        _log.info("%s committed %s over HTTP", writer.name, dict(committed.versions))
        return _json(_outcome(committed), 201)

    async def _publish(self, request: Request) -> Response:
        """Put the versions of a table that wait to be published, up to one of them."""
        grant_time(request.scope, _LONGEST)
        return await self._in_thread(self._published, request, threads=self._committers)

    def _published(self, request: Request) -> Response:
        writer = self._bearer(request, _WRITERS)
        _require_query(request, "version")
        name = _covered_name(request, writer)
        self._engine.mirror(name, number_of(request.query_params, "version"), checkpoint=False)
        return self._about(self._catalog.table(name).info(), writer)

    # New tables

    async def _new_table(self, request: Request) -> Response:
        """Make a table of a location: with the lines of a body as its version 0, or as it lies there."""
        await self._in_thread(self._admitted_table, request)
        grant_time(request.scope, _LONGEST)
        async with spooled(request, self._engine.settings.serve.commit_bytes) as file:
            return await self._in_thread(self._registered, request, file, threads=self._committers)

    def _admitted_table(self, request: Request) -> Response:
        _require_plain(request)
        _require_query(request, "location")
        self._offered(_location_of(request), self._bearer(request, _WRITERS))
        return Response()

    def _registered(self, request: Request, file: IO[bytes]) -> Response:
        writer, location, size = self._bearer(request, _WRITERS), _location_of(request), file.seek(0, 2)
        self._offered(location, writer)
        file.seek(0)
        made = self._first_contact.create(location, file.read()) if size else self._first_contact.take_in(location)
        _log.info("%s has table %s at %s over HTTP", writer.name, made.name, made.location)
        return _json(self._document(made), 201)

    def _offered(self, location: str, writer: AccessToken) -> Offer:
        """What a writer may make of a location."""
        offer = self._first_contact.offer(location)
        if offer is None:
            raise Forbidden("no table is made at this location by a job: see serve.create_below and serve.import_below")
        _require_covered(writer, offer.name)
        return offer

    # Reading

    def _located(self, request: Request, reader: AccessToken) -> Response:
        """The table at a location. One that the token is not for is no stranger's: a writer has to know."""
        location = _location_of(request)
        try:
            return self._about(self._catalog.table_at(location).info(), reader)
        except NotFound as error:
            offer = self._first_contact.offer(location)
            if offer is None or not (reader.allows(Right.WRITE) and reader.tables.covers(offer.name)):
                raise
            fields = {"creates": offer.creates, "imports": offer.imports}
            return problem(404, error.code, error.message, error.hint, fields=fields)

    def _head(self, request: Request, reader: AccessToken) -> Response:
        name = _covered_name(request, reader)
        return self._about(self._catalog.table(name).info(), reader)

    def _about(self, info: TableInfo, reader: AccessToken) -> Response:
        _require_covered(reader, info.name)
        return _json(self._document(info))

    def _document(self, info: TableInfo) -> dict[str, object]:
        return {
            "table": info.name,
            "location": info.location,
            "state": info.state,
            "head": info.head,
            "timestamp": info.head_timestamp,
            "published": info.published,
            "log_start": info.log_start,
            "publisher": Publisher.SERVER if self._engine.settings.serve.publish else Publisher.WRITER,
        }

    def _file(self, request: Request, reader: AccessToken) -> Response:
        """The bytes of one version."""
        name, version = _covered_name(request, reader), number_of(request.path_params, "version")
        return Response(self._catalog.table(name).commit_file(version or 0), media_type=NDJSON)

    def _range(self, request: Request, reader: AccessToken) -> Response:
        """The bytes of consecutive versions, as frames."""
        info = self._catalog.table(_covered_name(request, reader)).info()
        first = number_of(request.query_params, "from") or 0
        last = number_of(request.query_params, "to")
        last = info.head if last is None else min(last, info.head)
        grant_time(request.scope, _LONGEST)
        frames = self._frames(info.name, range(first, min(last, first + _MOST_VERSIONS - 1) + 1))
        begun = next(frames, b"")  # an error of the first one has a status of its own
        return StreamingResponse(chain([begun], frames), media_type=FRAMES)

    def _frames(self, name: str, versions: Sequence[int]) -> Iterator[bytes]:
        """Version after version, one of them in memory, each by a look at the database of its own."""
        table, sent = self._catalog.table(name), 0
        for version in versions:
            data = table.commit_file(version)
            yield frame_head(name, version, len(data)) + data
            sent += len(data)
            if sent >= _MOST_BYTES:
                break
        self._catalog.database.let_go()

    def _read(self, answer: Callable[[Request, AccessToken], Response], *known: str) -> Endpoint:
        """An endpoint that reads; ``known`` are the parameters of its address."""

        async def endpoint(request: Request) -> Response:
            return await self._in_thread(self._answered, request, answer, known)

        return endpoint

    def _answered(
        self, request: Request, answer: Callable[[Request, AccessToken], Response], known: Sequence[str]
    ) -> Response:
        reader = self._bearer(request, _READERS)
        _require_query(request, *known)
        return answer(request, reader)

    def _bearer(self, request: Request, rights: Sequence[Right]) -> AccessToken:
        token = self._doorkeeper.bearer(request)
        if not any(token.allows(right) for right in rights):
            raise Forbidden(
                f"the token {token.name} may not {' or '.join(rights)}: issue one with --rights {rights[-1]}"
            )
        keep_connection(request.scope)
        return token


def _either(read: Endpoint, write: Endpoint) -> Endpoint:
    """An endpoint that reads, or, asked by POST, writes."""

    async def endpoint(request: Request) -> Response:
        return await (write if request.method == "POST" else read)(request)

    return endpoint


def _is_small(request: Request) -> bool:
    """Whether a body is said to be so small that it may be taken before the token is looked at."""
    length = request.headers.get("content-length", "")
    return length.isdigit() and int(length) <= _SMALL_BODY


def _frames_of_body(request: Request, file: IO[bytes]) -> list[Part | ReadPart]:
    _require_query(request, "operation", "rows_checked")
    return framed_parts(file)


def _whole_body(request: Request, file: IO[bytes]) -> list[Part]:
    _require_query(request, "read_version", "operation", "rows_checked")
    exact = number_of(request.path_params, "version")
    read = number_of(request.query_params, "read_version")
    require_one_version(request.path_params["name"], exact, read)
    return [Part(request.path_params["name"], exact, read, 0, file.seek(0, 2))]


def _some(actions: Iterator[Action], table: str) -> Iterator[Action]:
    """The actions; there has to be one, or the table would be left out without a word."""
    first = next(actions, None)
    if first is None:
        raise InvalidInput(f"the commit of {table} has no actions", hint="send one action a line, or leave it out")
    yield from chain([first], actions)


def _are_rows_checked(request: Request, parts: Sequence[Part | ReadPart]) -> bool:
    """Whether rows were held against rules that the log cannot show; the writer of complete lines has done that."""
    asked = request.query_params.get("rows_checked", "false")
    if asked not in ("true", "false"):
        raise InvalidInput(f"rows_checked: {asked[:20]!r} is neither true nor false")
    return asked == "true" or not any(isinstance(part, Part) and part.version is None for part in parts)


def _operation_of(request: Request, parts: Sequence[Part | ReadPart]) -> str | None:
    """What the history shows of actions; complete lines say it themselves."""
    name = request.query_params.get("operation")
    if name is not None and not (name.strip() and name.isprintable()):
        raise InvalidInput("operation: the name is empty, or has letters that cannot be printed")
    if name is not None and any(isinstance(part, Part) and part.version is not None for part in parts):
        raise InvalidInput("complete lines name their operation themselves", hint="leave operation out of the address")
    return name


def _location_of(request: Request) -> str:
    location: str = request.query_params.get("location", "")
    return location


def _covered_name(request: Request, token: AccessToken) -> str:
    name: str = request.path_params["name"]
    _require_covered(token, name)
    return name


def _require_covered(token: AccessToken, table: str) -> None:
    """Refuse a table that a token is not for, whether there is one or not."""
    if not token.tables.covers(table):
        raise Forbidden(f"the token {token.name} is for tables {token.tables.text}, not for {table[:255]}")


def _require_distinct(parts: Sequence[Part | ReadPart]) -> None:
    if len({part.table for part in parts}) < len(parts):
        hint = "put all lines into one commit; a table that gets a commit counts as read"
        raise InvalidInput("the body has two parts of one table", hint=hint)


def _key_of(request: Request) -> str:
    key = request.headers.get("idempotency-key", "")
    if not key.strip() or len(key) > _LONGEST_KEY or not key.isprintable():
        raise InvalidInput(
            f"the header Idempotency-Key has to be a text of 1 to {_LONGEST_KEY} letters",
            hint="send a new UUID with each commit, and the same one when the commit is sent again",
        )
    return key


def _require_plain(request: Request) -> None:
    """Refuse a body that is packed: its bytes are not those of a commit file."""
    packed = request.headers.get("content-encoding", _PLAIN).strip().lower()
    if packed != _PLAIN:
        raise InvalidInput(
            f"the body has the Content-Encoding {packed[:20]!r}", hint="send the lines of the commit file as they are"
        )


def _require_query(request: Request, *known: str) -> None:
    """Refuse an address that says one thing twice, or another thing than is known: which was meant is a guess."""
    names = [name for name, _ in request.query_params.multi_items()]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InvalidInput(f"{twice[0][:20]!r} comes more than once in the address")
    if unknown := [name for name in names if name not in known]:
        takes = f"it takes {', '.join(known)}" if known else "it takes none"
        raise InvalidInput(f"{unknown[0][:20]!r} is no parameter of this request", hint=takes)


def _outcome(committed: Committed) -> dict[str, object]:
    return {
        "versions": dict(committed.versions),
        "timestamp": committed.timestamp,
        "already_applied": committed.already_applied,
    }


def _json(document: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(document), status, media_type="application/json")
