"""The routes of the status page and of its API.

Reading needs a token, or a process of the same machine; every change is a form of a browser that is signed in, with the
token of its session. Work on the database is done in threads, a few at a time.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final
from urllib.parse import quote

import anyio
import anyio.to_thread
import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from deltamirror.catalog import Catalog
from deltamirror.config import Switch, redact_text, redact_url
from deltamirror.errors import DeltaMirrorError
from deltamirror.ops.alerts.silencing import exact_patterns
from deltamirror.ops.engine import MirrorEngine
from deltamirror.ops.health import HealthMonitor
from deltamirror.ops.slo import SloRow
from deltamirror.ops.slo import report as slo_report
from deltamirror.txnlog.access.patterns import TablePattern
from deltamirror.web.commits.app import CommitApi, bounds_its_body
from deltamirror.web.listener import monitoring_app
from deltamirror.web.pages.acts import Operations
from deltamirror.web.pages.addresses import Binding
from deltamirror.web.pages.asked import form_of, local_path, number_of, silence_of, text_of, wanted_of, window_of
from deltamirror.web.pages.budgets import Budgets
from deltamirror.web.pages.documents import overview_document, table_document
from deltamirror.web.pages.gathering import failure_view, for_reader, overview, table_view
from deltamirror.web.pages.guard import Guard
from deltamirror.web.pages.identity import Doorkeeper, Forbidden, TooMany, Unknown, Visitor
from deltamirror.web.pages.rendering import STATIC, render
from deltamirror.web.pages.sessions import BrowserSessions
from deltamirror.web.problems import BodyTooLarge, problem, problem_of, status_of

Form = Mapping[str, str]
Act = Callable[[Visitor, str, Form], str]

_THREADS: Final = 8
_HELD_BACK: Final = 20
"""So many answers to wrong tokens wait at once: a tenth of the connections, so that others are served."""
_PATIENCE: Final = 5.0
"""How long a page waits for a DuckDB file that another process has open."""
_API: Final = "/api/"
_FOR_PROGRAMS: Final = (_API, "/healthz", "/readyz", "/metrics")


def status_page(engine: MirrorEngine, binding: Binding, catalog: Catalog) -> ASGIApp:
    """The application that is served at a binding."""
    return Guard(_Pages(engine, binding, catalog).app(), binding, bounds_its_body)


class _Pages:
    """The pages of one catalog."""

    def __init__(self, engine: MirrorEngine, binding: Binding, catalog: Catalog) -> None:
        self._database, self._live = engine.database, engine.live
        self._catalog = redact_url(engine.settings.catalog.url)
        self._doorkeeper = Doorkeeper(engine.database, binding, BrowserSessions(engine.settings.serve.session))
        self._operations = Operations(engine)
        self._budgets = Budgets(self._counted)
        self._monitoring = monitoring_app(HealthMonitor(engine.database, engine.live))
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._held_back = 0
        self._commits = CommitApi(catalog, self._doorkeeper, engine, self._in_thread)

    def app(self) -> Starlette:
        """All routes."""
        both: dict[str, Act] = {"silence": self._silence, "unsilence": self._unsilence}
        acts: dict[str, Act] = {"pause": self._pause, "resume": self._resume, "repair": self._repair, **both}
        all_acts: dict[str, Act] = {"pause": self._pause_all, "resume": self._resume_all, **both}
        return Starlette(
            routes=[
                *self._commits.routes(),  # before the pages: each request looks at one route after the other
                Route("/", self._read(self._overview)),
                Route("/tables/{name}", self._read(self._table)),
                Route("/tables/{name}/failures/{version}", self._read(self._failure)),
                *(Route(path, self._read(self._silence_page)) for path in ("/silence", "/tables/{name}/silence")),
                *(Route(f"/tables/{{name}}/{name}", self._change(act), methods=["POST"]) for name, act in acts.items()),
                *(Route(f"/{name}", self._change(act), methods=["POST"]) for name, act in all_acts.items()),
                Route("/sign-in", self._sign_in_page, methods=["GET"]),
                Route("/sign-in", self._sign_in, methods=["POST"]),
                Route("/sign-out", self._sign_out, methods=["POST"]),
                Route(f"{_API}v1/status", self._read(self._api_status)),
                Route(f"{_API}v1/tables/{{name}}", self._read(self._api_table)),
                *(
                    Route(path, _Monitoring(self._monitors, self._monitoring))
                    for path in ("/healthz", "/readyz", "/metrics")
                ),
                Mount("/static", StaticFiles(directory=STATIC)),
            ],
            exception_handlers={
                DeltaMirrorError: self._failed,
                HTTPException: self._failed,
                Unknown: self._unknown,
                Forbidden: self._failed,
                TooMany: self._failed,
                BodyTooLarge: self._failed,
            },
        )

    # Reading

    @property
    def _switch(self) -> Switch:
        return Switch.of(self._live.current)

    def _overview(self, request: Request, reader: Visitor) -> Response:
        found = overview(self._database, wanted_of(request, reader.tables), self._switch)
        slo = self._budgets.of(reader.tables)
        return self._page(request, reader, "overview.html", title="Overview", found=found, slo=slo)

    def _table(self, request: Request, reader: Visitor) -> Response:
        name = request.path_params["name"]
        before, window = number_of(request.query_params, "before"), window_of(request)
        found = table_view(self._database, name, reader.tables, self._switch, before=before, window=window)
        repaired, slo = self._operations.repair_of(name), self._budgets.of(reader.tables, name)
        shown: dict[str, Any] = {"found": found, "before": before, "repaired": repaired, "slo": slo}
        return self._page(request, reader, "table.html", title=name, **shown)

    def _failure(self, request: Request, reader: Visitor) -> Response:
        name, version = request.path_params["name"], number_of(request.path_params, "version") or 0
        found = failure_view(self._database, name, reader.tables, self._switch, version)
        return self._page(request, reader, "failure.html", title=f"{name}, version {version}", found=found)

    def _silence_page(self, request: Request, reader: Visitor) -> Response:
        """What to silence is in the address: it says why it cannot be before a reason is asked for."""
        table = request.path_params.get("name", "")
        _require_operator(reader, table)
        rule, subject = text_of(request.query_params, "rule"), table or text_of(request.query_params, "subject")
        exact_patterns(self._database, rule, subject, self._live.current)
        shown: dict[str, Any] = {"rule": rule, "subject": subject, "table": table, "next": _next(request)}
        return self._page(request, reader, "silence.html", title="Silence", **shown)

    async def _sign_in_page(self, request: Request) -> Response:
        return self._page(request, None, "sign_in.html", title="Sign in", next=_next(request), wrong="")

    def _api_status(self, request: Request, reader: Visitor) -> Response:
        found = overview(self._database, wanted_of(request, reader.tables), self._switch)
        return _json(overview_document(found, self._budgets.of(reader.tables)))

    def _api_table(self, request: Request, reader: Visitor) -> Response:
        name, before = request.path_params["name"], number_of(request.query_params, "before")
        found = table_view(self._database, name, reader.tables, self._switch, before=before, window="1h")
        return _json(table_document(found, self._budgets.of(reader.tables, name)))

    def _counted(self, visible: TablePattern, table: str | None) -> tuple[SloRow, ...]:
        settings = self._live.current
        try:
            with self._database.patience(_PATIENCE):
                return slo_report(self._database, settings, table=table, visible=visible, by_table=False).overall
        finally:
            self._database.let_go()

    async def _monitors(self, request: Request) -> None:
        """Let a reader who may see all tables look at health and metrics."""
        await self._in_thread(self._require_all_tables, request)

    def _require_all_tables(self, request: Request) -> Response:
        if not self._doorkeeper.reader(request).tables.covers_all:
            raise Forbidden("This is about all tables.")
        return Response()

    # Changes

    def _pause(self, reader: Visitor, table: str, form: Form) -> str:
        return self._operations.pause(table, operator=reader.name, unpublished=form.get("unpublished") == "yes")

    def _resume(self, reader: Visitor, table: str, _: Form) -> str:
        return self._operations.resume(table, operator=reader.name)

    def _repair(self, reader: Visitor, table: str, _: Form) -> str:
        return self._operations.repair(table, operator=reader.name)

    def _pause_all(self, reader: Visitor, _: str, __: Form) -> str:
        return self._operations.pause_all(operator=reader.name)

    def _resume_all(self, reader: Visitor, _: str, __: Form) -> str:
        return self._operations.resume_all(operator=reader.name)

    def _silence(self, reader: Visitor, table: str, form: Form) -> str:
        seconds, reason = silence_of(form)
        rule, subject = text_of(form, "rule"), table or text_of(form, "subject")
        return self._operations.silence(rule, subject, seconds=seconds, reason=reason, operator=reader.name)

    def _unsilence(self, reader: Visitor, table: str, form: Form) -> str:
        return self._operations.unsilence(text_of(form, "silence"), operator=reader.name, table=table or None)

    def _change(self, act: Act) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            return await self._in_thread(self._changed, request, act, await form_of(request))

        return endpoint

    def _changed(self, request: Request, act: Act, form: Form) -> Response:
        """Carry out an act, and lead back to where it was asked for, which tells how it went."""
        reader = self._doorkeeper.operator(request, form.get("csrf", ""))
        table = request.path_params.get("name", "")
        _require_operator(reader, table)
        try:
            notice = act(reader, table, form), "good"
        except DeltaMirrorError as refused:
            error = for_reader(refused, reader.tables)
            notice = f"{redact_text(error.message)}. {redact_text(error.hint)}", "bad"
        if reader.session is not None:
            reader.session.notice = notice
        return RedirectResponse(local_path(form.get("next", "/")), 303)

    async def _sign_in(self, request: Request) -> Response:
        form = await form_of(request)
        try:
            return await self._in_thread(self._signed_in, request, form)
        except Unknown:
            shown = {"next": local_path(form.get("next", "/")), "wrong": "This token is not known, or has ended."}
            return self._page(request, None, "sign_in.html", 401, title="Sign in", **shown)

    def _signed_in(self, request: Request, form: Form) -> Response:
        response = RedirectResponse(local_path(form.get("next", "/")), 303)
        self._doorkeeper.sign_in(request, form.get("token", "").strip(), response)
        return response

    async def _sign_out(self, request: Request) -> Response:
        return await self._in_thread(self._signed_out, request, await form_of(request))

    def _signed_out(self, request: Request, form: Form) -> Response:
        self._doorkeeper.operator(request, form.get("csrf", ""))
        response = RedirectResponse("/", 303)
        self._doorkeeper.sign_out(request, response)
        return response

    # Answers

    def _read(self, page: Callable[[Request, Visitor], Response]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            return await self._in_thread(lambda: page(request, self._doorkeeper.reader(request)))

        return endpoint

    async def _in_thread(
        self, work: Callable[..., Response], *arguments: Any, threads: anyio.CapacityLimiter | None = None
    ) -> Response:
        """Do what asks the database, in one of a few threads, and let go of a file that others may wait for."""
        try:
            work_in_turn = partial(self._worked, work, *arguments)
            return await anyio.to_thread.run_sync(work_in_turn, limiter=threads or self._threads)
        except Unknown as unknown:
            await self._hold_back(unknown.pause)
            raise

    async def _hold_back(self, pause: float) -> None:
        """Answer a wrong token later, which costs no thread; beyond a number of them at once, refuse it instead."""
        if not pause:
            return
        if self._held_back >= _HELD_BACK:
            raise TooMany(pause)
        self._held_back += 1
        try:
            await anyio.sleep(pause)
        finally:
            self._held_back -= 1

    def _worked(self, work: Callable[..., Response], *arguments: Any) -> Response:
        try:
            with self._database.patience(_PATIENCE):
                return work(*arguments)
        finally:
            self._database.let_go()

    def _page(
        self, request: Request, reader: Visitor | None, template: str, status: int = 200, **values: Any
    ) -> Response:
        session = None if reader is None else reader.session
        notice = None
        if session is not None and "x-live" not in request.headers:
            notice, session.notice = session.notice, None
        shared = {
            "catalog": "" if reader is None else self._catalog,
            "csrf": "" if session is None else session.csrf,
            "here": _here(request),
            "notice": notice,
            "reader": reader,
            "refresh": self._live.current.serve.refresh,
        }
        return HTMLResponse(render(template, **shared, **values), status)

    def _unknown(self, request: Request, _: Exception) -> Response:
        if request.scope["path"].startswith(_FOR_PROGRAMS):
            hint = "send Authorization: Bearer dm_…; `deltamirror token issue` makes one"
            return problem(401, "unauthorized", "a token is needed", hint, headers={"WWW-Authenticate": "Bearer"})
        if "x-live" in request.headers:
            return Response(status_code=401)
        return RedirectResponse(f"/sign-in?next={_here(request, quoted=True)}", 303)

    def _failed(self, request: Request, error: Exception) -> Response:
        headers = {"Retry-After": str(error.seconds)} if isinstance(error, TooMany) else {}
        if request.scope["path"].startswith(_FOR_PROGRAMS):
            return _program_told(error, headers)
        status, message, hint = _told(error)
        reader = None
        with suppress(DeltaMirrorError):  # no token is looked at here: wrong ones were counted, and held back
            reader = self._doorkeeper.signed_in(request)
        response = self._page(request, reader, "error.html", status, title=message, hint=hint)
        response.headers.update(headers)
        return response


class _Monitoring:
    """Health and metrics, for readers that a check lets through."""

    def __init__(self, check: Callable[[Request], Awaitable[None]], app: ASGIApp) -> None:
        self._check, self._app = check, app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the process of a service does."""
        await self._check(Request(scope))
        await self._app(scope, receive, send)


def _require_operator(reader: Visitor, table: str) -> None:
    """Refuse a reader who may not change this table or, where none is named, all tables."""
    if reader.session is None:
        raise Forbidden("Sign in with a token that may operate.")
    if not reader.is_operator or not (reader.tables.covers(table) if table else reader.tables.covers_all):
        raise Forbidden(f"The token {reader.name} does not allow this.")


def _told(error: Exception) -> tuple[int, str, str]:
    """Status, message and hint of a failure, for people."""
    match error:
        case DeltaMirrorError():
            return status_of(error), redact_text(error.message), redact_text(error.hint)
        case TooMany():
            return 429, "Too many wrong tokens", f"wait {error.seconds} seconds"
        case Forbidden():
            return 403, str(error), ""
        case HTTPException(status_code=404):
            return 404, "There is no such page", "the overview leads to all of them"
        case HTTPException():
            return error.status_code, error.detail, ""
    return 500, "This is a defect", "the log of the server says more"


def _program_told(error: Exception, headers: Mapping[str, str]) -> Response:
    """The same for programs."""
    match error:
        case TooMany():
            return problem(429, "throttled", "too many wrong tokens", f"wait {error.seconds} seconds", headers=headers)
        case Forbidden():
            return problem(403, "permission-denied", str(error))
    return problem_of(error)


def _json(document: Mapping[str, object]) -> Response:
    return Response(msgspec.json.encode(document), media_type="application/json")


def _here(request: Request, *, quoted: bool = False) -> str:
    """The address of this page, to come back to."""
    query = request.scope["query_string"].decode("latin-1")
    path = quote(request.scope["path"]) + (f"?{query}" if query else "")
    here = path if request.method in ("GET", "HEAD") else "/"
    return quote(here, safe="/") if quoted else here


def _next(request: Request) -> str:
    return local_path(request.query_params.get("next", "/"))
