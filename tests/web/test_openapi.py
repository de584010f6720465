"""The commit API is as its description says: schemathesis draws requests by it, and holds the answers against it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import positive_data_acceptance

from deltamirror import Catalog
from deltamirror.txnlog.access.tokens import Right
from deltamirror.web.commits.bodies import FRAMES, NDJSON
from deltamirror.web.commits.description import description
from tests.support.interfaces.commit_clients import UNTIMED
from tests.support.interfaces.status_pages import Served, served
from tests.support.mirrors.local import make_table

pytestmark = pytest.mark.requirement("R36")

_REFUSALS = ["400", "401", "403", "404", "409", "414", "422", "429", "503"]
_CONFIGURATION = {"checks": {"negative_data_rejection": {"expected-statuses": _REFUSALS}}}

api = schemathesis.openapi.from_dict(description(), config=schemathesis.Config.from_dict(_CONFIGURATION))


@schemathesis.serializer(NDJSON, FRAMES)
def lines(_: schemathesis.SerializationContext, value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


@pytest.fixture(scope="module")
def page(made_catalogs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("lake")
    (folder / "lake.db").write_bytes((made_catalogs / "lake.db").read_bytes())
    with Catalog(f"sqlite:///{folder / 'lake.db'}") as catalog:
        make_table(catalog, folder, properties=UNTIMED)
        with served(catalog, create_below=str(folder), import_below=str(folder)) as found:
            yield found


@api.parametrize()
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_answer_is_one_that_the_description_has(case: schemathesis.Case[Any], page: Served) -> None:
    headers = {"Authorization": f"Bearer {page.token('job', Right.WRITE)}"}
    # A schema does not say which lines are a commit of a table.
    case.call_and_validate(base_url=page.url, headers=headers, excluded_checks=[positive_data_acceptance])
