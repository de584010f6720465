"""What the commit API costs without commits: its server, its bounds and one route, whose answer asks no database."""

import sys

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deltamirror.config import ServeSettings
from deltamirror.web.commits.app import bounds_its_body
from deltamirror.web.listener import Listener, keep_connection
from deltamirror.web.pages.addresses import binding_of
from deltamirror.web.pages.guard import Guard
from deltamirror.web.pages.server import configured

_ANSWER = b'{"versions":{"bench":123456},"timestamp":1763000000000,"already_applied":false}'


async def _committed(request: Request) -> Response:
    await request.body()
    keep_connection(request.scope)
    return Response(_ANSWER, 201, media_type="application/json")


def main() -> None:
    """Answer at the address that is the argument, until the process is ended."""
    binding = binding_of(ServeSettings(listen=sys.argv[1]), insecure_http=False)
    routes = [Route("/api/v1/tables/{name}/commits", _committed, methods=["POST"])]
    with Listener(binding.address) as listener:
        listener.serve(Guard(Starlette(routes=routes), binding, bounds_its_body), lambda app: configured(app, binding))
        listener.wait()


if __name__ == "__main__":
    main()
