"""The commit API as an OpenAPI document: served, kept in the reference, and the source of random requests in tests."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from deltamirror.txnlog.tables.registry import MirrorState
from deltamirror.web.commits.bodies import FRAMES, NDJSON
from deltamirror.web.problems import PROBLEM

_Document = dict[str, Any]


class Publisher(StrEnum):
    """Which side puts the object of a version that a writer has committed."""

    SERVER = "server"
    WRITER = "writer"


_LARGEST: Final = 2**63 - 1
_PROBLEMS: Final[Mapping[int, str]] = {
    401: "There is no token, or it is not known, revoked or past its end.",
    403: "The token lacks the right, or is for other tables.",
    404: "The catalog has no such table, version or location.",
    409: "Another commit has the version (`code` is `conflict`, `head` the version that the table has), or the "
    "state of the table forbids it.",
    413: "The body is larger than `serve.commit_bytes`.",
    414: "The address is longer than 2 KiB.",
    422: "The request, or a line of it, is wrong; or the key was used for another commit (`token-reused`).",
    429: "Too many wrong tokens.",
    503: "Try again, with the same key: the database is busy or does not answer. `Retry-After` says when.",
}
_READ: Final = (401, 403, 404, 414, 422, 429, 503)
_COMMIT: Final = (401, 403, 404, 409, 413, 414, 422, 429, 503)
_FRAMES_TEXT: Final = (
    'Each commit begins with a line `{"commit":{"table":"orders","version":7,"bytes":1234}}`; exactly so many bytes, '
    "those of the commit file, follow."
)


def description() -> _Document:
    """The document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "deltamirror commit API",
            "version": "1",
            "description": "Commit actions of Delta Lake, or complete lines at exact versions, and read them. Served "
            "by `deltamirror serve`; any number of servers of one catalog are alike.",
        },
        "security": [{"token": []}],
        "paths": {
            "/api/v1/commits": {"post": _several()},
            "/api/v1/tables": {"get": _located(), "post": _new_table()},
            "/api/v1/tables/{name}/head": {"get": _head()},
            "/api/v1/tables/{name}/commits": {"get": _range(), "post": _next()},
            "/api/v1/tables/{name}/publish": {"post": _publish()},
            "/api/v1/tables/{name}/commits/{version}": {"get": _file(), "post": _one()},
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "dm_ID_SECRET"}},
            "schemas": {"Committed": _committed(), "Table": _table(), "Problem": _problem()},
        },
    }


def _one() -> _Document:
    return _operation(
        "commit",
        "Commit lines as exactly this version of a table, byte for byte.",
        parameters=[_NAME, _VERSION, _KEY],
        body={NDJSON: {"schema": {"type": "string"}}},
        answers={"201": _json("It is committed, by this request or by an earlier one with its key.", "Committed")},
        problems=_COMMIT,
    )


def _next() -> _Document:
    return _operation(
        "commitNext",
        "Commit actions, one a line, as the next version of a table, whichever that is; the server writes `commitInfo`."
        " Files that are only added go after everything that is there. With `read_version`, the version that the "
        "actions were computed from, the whole table counts as read, and later commits are checked by Delta's rules "
        "for conflicts.",
        parameters=[_NAME, _version("read_version", required=False), _OPERATION, _ROWS_CHECKED, _KEY],
        body={NDJSON: {"schema": {"type": "string"}}},
        answers={"201": _json("It is committed, by this request or by an earlier one with its key.", "Committed")},
        problems=_COMMIT,
    )


def _several() -> _Document:
    return _operation(
        "commitTables",
        f"Commit to several tables: all of them, or none. {_FRAMES_TEXT} Without `version` the bytes are actions, "
        "which become the next version; `read_version` is the one that they were computed from. A line "
        '`{"read":{"table":"rates","version":3}}` names a table that was read for them: later changes of it conflict.',
        parameters=[_OPERATION, _ROWS_CHECKED, _KEY],
        body={FRAMES: {"schema": {"type": "string", "format": "binary"}}},
        answers={"201": _json("All are committed.", "Committed")},
        problems=_COMMIT,
    )


def _new_table() -> _Document:
    return _operation(
        "newTable",
        "Make a table of a location below `serve.create_below`, with these lines as its version 0; without a body, "
        "import the Delta table at a location below `serve.import_below`. It is named by its folders. The same request "
        "again is the same table.",
        parameters=[_LOCATION],
        body={NDJSON: {"schema": {"type": "string"}}},
        answers={"201": _json("The table.", "Table")},
        problems=_COMMIT,
        needs_body=False,
    )


def _publish() -> _Document:
    return _operation(
        "publish",
        "Put the versions that wait to be published into `_delta_log/`, up to one of them, or up to the newest. A lost "
        "reply changes nothing: send it again.",
        parameters=[_NAME, _version("version", required=False)],
        answers={"200": _json("They are published; the table.", "Table")},
        problems=(401, 403, 404, 409, 414, 422, 429, 503),
    )


def _located() -> _Document:
    return _operation(
        "tableAt",
        "The table at a location, in any spelling (`s3a://`, `s3://`, a link on disk). Where there is none, "
        "`creates` and `imports` say whether a POST makes one.",
        parameters=[_LOCATION],
        answers={"200": _json("The table.", "Table")},
        problems=_READ,
    )


def _head() -> _Document:
    return _operation(
        "head",
        "The newest version of a table.",
        parameters=[_NAME],
        answers={"200": _json("The table.", "Table")},
        problems=_READ,
    )


def _range() -> _Document:
    return _operation(
        "commits",
        f"The commit files of consecutive versions. {_FRAMES_TEXT} An answer may end before `to`: ask for the rest.",
        parameters=[_NAME, _version("from", required=False), _version("to", required=False)],
        answers={"200": {"description": "The commits.", "content": {FRAMES: {"schema": {"type": "string"}}}}},
        problems=_READ,
    )


def _file() -> _Document:
    return _operation(
        "commitFile",
        "The commit file of a version, byte for byte.",
        parameters=[_NAME, _VERSION],
        answers={"200": {"description": "The lines.", "content": {NDJSON: {"schema": {"type": "string"}}}}},
        problems=_READ,
    )


def _operation(
    name: str,
    summary: str,
    *,
    parameters: list[_Document],
    answers: Mapping[str, _Document],
    problems: tuple[int, ...],
    body: _Document | None = None,
    needs_body: bool = True,
) -> _Document:
    told = {"$ref": "#/components/schemas/Problem"}
    failed = {str(each): {"description": _PROBLEMS[each], "content": {PROBLEM: {"schema": told}}} for each in problems}
    sent = {} if body is None else {"requestBody": {"required": needs_body, "content": body}}
    return {
        "operationId": name,
        "summary": summary,
        "parameters": parameters,
        **sent,
        "responses": {**answers, **failed},
    }


def _version(name: str, *, where: str = "query", required: bool = True) -> _Document:
    schema = {"type": "integer", "minimum": 0, "maximum": _LARGEST}
    return {"name": name, "in": where, "required": required, "schema": schema}


def _json(text: str, schema: str) -> _Document:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": text, "content": content}


def _object(**properties: _Document) -> _Document:
    return {"type": "object", "required": list(properties), "properties": properties}


def _committed() -> _Document:
    return _object(
        versions={"type": "object", "additionalProperties": {"type": "integer"}, "description": "By table."},
        timestamp={"type": "integer", "description": "Milliseconds since 1970."},
        already_applied={"type": "boolean", "description": "An earlier request with the same key committed it."},
    )


def _table() -> _Document:
    return _object(
        table={"type": "string"},
        location={"type": "string"},
        state={"enum": list(MirrorState), "description": "Whether it is mirrored."},
        head={"type": "integer", "description": "The newest version."},
        timestamp={"type": "integer", "description": "When that was committed, in milliseconds since 1970."},
        published={"type": ["integer", "null"], "description": "The newest version that the mirror has recorded."},
        log_start={"type": "integer", "description": "The oldest version that the log holds."},
        publisher={
            "enum": list(Publisher),
            "description": "Which side puts a committed version: `server` (`serve.publish`) on the request `publish`, "
            "or the writer itself, if it likes. The mirror puts all that are left.",
        },
    )


def _problem() -> _Document:
    return _object(
        title={"type": "string"},
        status={"type": "integer"},
        code={"type": "string", "description": "Stable: docs/reference/errors.md lists all of them."},
        detail={"type": "string", "description": "The cause, with the place: a line, a table, a version."},
        hint={"type": "string", "description": "The remedy."},
        retryable={"type": "boolean", "description": "Whether the same request may succeed later."},
    )


_LOCATION: Final[_Document] = {"name": "location", "in": "query", "required": True, "schema": {"type": "string"}}
_NAME: Final[_Document] = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
_VERSION: Final = _version("version", where="path")
_OPERATION: Final[_Document] = {
    "name": "operation",
    "in": "query",
    "required": False,
    "description": "What the history shows of actions, such as WRITE or DELETE.",
    "schema": {"type": "string", "minLength": 1},
}
_ROWS_CHECKED: Final[_Document] = {
    "name": "rows_checked",
    "in": "query",
    "required": False,
    "description": "The rows of the files that actions add were checked against the constraints of the table, which "
    "the log cannot show.",
    "schema": {"type": "boolean"},
}
_KEY: Final[_Document] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "A new one for each commit, and the same one when that commit is sent again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}
