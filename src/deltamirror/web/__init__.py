"""HTTP: the status page and its API. The one package that imports starlette, jinja2 and uvicorn."""
