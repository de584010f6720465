"""No password leaves an address or a message, however odd it is."""

import string
import traceback
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from deltamirror import Catalog
from deltamirror.cli import cli
from deltamirror.config import redact_text, redact_url, scrub, secret_pieces
from deltamirror.errors import DeltaMirrorError, InvalidSettings, Unavailable

pytestmark = pytest.mark.requirement("R46")

WORD = "canary"
ODD = "@:/?#&;=%+ \t\n'\"\\[]{}<>,.é"
passwords = st.text(st.sampled_from(ODD + string.ascii_letters), max_size=12).map(lambda odd: f"{odd}{WORD}{odd}")
users = st.text(st.sampled_from(ODD.replace(":", "") + "me"), max_size=6)
names = st.sampled_from(
    ["password", "sslpassword", "token", "authorization", "client_secret", "X-Amz-Signature", "sig"]
)


@given(users, passwords)
def test_no_password_is_shown_of_an_address_however_it_is_spelled(user: str, password: str) -> None:
    for spelled in (password, quote(password, safe="")):
        assert WORD not in redact_url(f"postgresql://{user}:{spelled}@db.example/lake?sslmode=require")


@given(users, passwords)
def test_no_escaped_password_is_shown_of_an_address_in_a_message(user: str, password: str) -> None:
    address = f"postgresql://{quote(user, safe='')}:{quote(password, safe='')}@db.example/lake"
    assert WORD not in redact_text(f"cannot reach {address}: refused. Again: {address}")


@given(names, st.sampled_from(["?", ";"]), st.sampled_from(["", "Bearer ", "Basic "]), passwords)
def test_no_secret_parameter_is_shown(name: str, mark: str, kind: str, password: str) -> None:
    escaped = quote(password, safe="")
    between = "&" if mark == "?" else ";"
    assert WORD not in redact_url(f"sc://db.example:15002/{mark}user_id=me{between}{name}={kind}{escaped}")
    assert WORD not in redact_text(f"sent {name}={kind}{escaped} and Authorization: {kind}{escaped}; answer 403")


def test_what_is_no_secret_is_shown() -> None:
    address = "postgresql://me:x@db.example:5432/lake?sslmode=require&application_name=etl"
    assert redact_url(address) == address.replace("me:x@", "me:***@")
    text = "cannot read s3://lake/t/_delta_log/00000000000000000001.json: HTTP 503 (SlowDown), basic check failed"
    assert redact_text(text) == text
    named = "DELTAMIRROR_STORAGE__SECRET_ACCESS_KEY: expected a text; the token 'load-17' was used before"
    assert redact_text(named) == named


# Where a secret may stand in what we are given: the setting, and the text around the secret.
PLACES = {
    "password": ("catalog.url", "postgresql://me:{}@127.0.0.1:1/lake"),
    "short scheme": ("catalog.url", "postgres://me:{}@127.0.0.1:1/lake"),
    "driver": ("catalog.url", "postgresql+psycopg://me:{}@127.0.0.1:1/lake"),
    "no port": ("catalog.url", "postgresql://me:{}@127.0.0.1:port/lake"),
    "no scheme": ("catalog.url", "me:{}@127.0.0.1/lake"),
    "four slashes": ("catalog.url", "postgresql:////me:{}@127.0.0.1/lake"),
    "keywords": ("catalog.url", "host=127.0.0.1 port=1 password={}"),
    "another engine": ("catalog.url", "mysql://me:{}@127.0.0.1:1/lake"),
    "parameter": ("catalog.url", "postgresql://127.0.0.1:1/lake?user=me&password={}"),
    "sslpassword": ("catalog.url", "postgresql://me@127.0.0.1:1/lake?sslpassword={}&sslmode=disable"),
    "slip of a name": ("catalog.url", "postgresql://me@127.0.0.1:1/lake?pasword={}"),
    "sqlite": ("catalog.url", "sqlite://me:{}@127.0.0.1/lake.db"),
    "motherduck": ("catalog.url", "duckdb:///md:lake?motherduck_token={}"),
    "spark token": ("spark.master", "sc://127.0.0.1:1/;user_id=me;token={}"),
    "spark headers": ("spark.master", "sc://127.0.0.1:1/;headers=x-auth:{}"),
    "endpoint": ("storage.endpoint", "https://me:{}@127.0.0.1:1"),
    "fragment": ("storage.endpoint", "https://127.0.0.1:1/#{}"),
    "signature": ("storage.endpoint", "https://127.0.0.1:1/lake?se=1&sig={}"),
    "key": ("storage.secret_access_key", "{}"),
    "azure key": ("storage.azure_key", "{}"),
    "session": ("storage.session_token", "{}"),
}
CANARY = "hUnTr3XqZ"
printable = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=5)
spaced = st.text(st.sampled_from("@/#?: ;&=%\\'\"[]{}\t\né\u00a0\u2028語"), max_size=3)
odd_secrets = st.tuples(st.one_of(printable, spaced), st.one_of(printable, spaced)).map(CANARY.join)
PIECES = [CANARY[start : start + 4].lower() for start in range(len(CANARY) - 3)]


def commands(setting: str, value: str) -> Iterator[str]:
    """All that three commands say, and the error of a catalog that is opened by the library."""
    section, name = setting.split(".")
    environment = {
        f"DELTAMIRROR_{section}__{name}".upper(): value,
        "DELTAMIRROR_WRITER__RETRIES": "0",
        "DELTAMIRROR_MIRROR__RUNNER": "local",
        "DELTAMIRROR_STORAGE__ACCESS_KEY_ID": "me",
    }
    for words in (["config", "show"], ["config", "check"], ["table", "list", "--debug"]):
        result = CliRunner().invoke(cli, words, env=environment, prog_name="deltamirror")
        yield result.output + str(result.exception)
    if setting == "catalog.url":
        with pytest.raises(DeltaMirrorError) as caught, Catalog(value) as catalog:
            catalog.tables()
        yield "".join([*traceback.format_exception(caught.value), repr(caught.value.as_json())])


@pytest.mark.requirement("R86")
@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(secret=odd_secrets, escaped=st.booleans())
@example(secret=f"p@{CANARY}", escaped=False)
@example(secret=f"p;{CANARY}", escaped=False)
@example(secret=f"p/{CANARY}", escaped=False)
@example(secret=f"&{CANARY}=0", escaped=False)
def test_no_piece_of_a_secret_is_said(
    place: str, secret: str, escaped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    setting, form = PLACES[place]
    for said in commands(setting, form.format(quote(secret, safe="") if escaped else secret)):
        assert not [piece for piece in PIECES if piece in said.lower()], said


@pytest.mark.parametrize("secret", ["p@ss", "p/ss", "p#ss", "p?ss", "p ss"])
def test_a_password_that_is_not_encoded_is_refused_with_the_way_to_write_it(secret: str) -> None:
    with pytest.raises(InvalidSettings, match=r"`p@ss` is `p%40ss`"):
        Catalog(f"postgresql://me:{secret}@127.0.0.1:1/lake")
    with pytest.raises(Unavailable):
        Catalog(f"postgresql://me:{quote(secret, safe='')}@127.0.0.1:1/lake").tables()


def test_a_parameter_that_postgresql_does_not_know_is_refused_by_its_number_alone() -> None:
    with pytest.raises(
        InvalidSettings, match=r"parameter 2 of its address is none of PostgreSQL's.*`&`.*%26"
    ) as caught:
        Catalog(f"postgresql://127.0.0.1:1/lake?password=p&{CANARY}=0")
    assert CANARY not in repr(caught.value.as_json())


def test_what_a_driver_says_is_scrubbed_of_the_secrets_of_the_url() -> None:
    pieces = secret_pieces("postgresql://me:p%40ss@h/lake?sslpassword=o%2Fther&sslmode=require&x=ab")
    assert pieces == {"p%40ss", "p@ss", "o%2Fther", "o/ther"}
    assert secret_pieces("postgresql://h/lake?password=half&other=1&sslmode=require") == {"half", "other"}
    assert scrub("cannot resolve 'p@ss' (p%40ss) for me: sslmode require, o/ther", pieces) == (
        "cannot resolve '***' (***) for me: sslmode require, ***"
    )
