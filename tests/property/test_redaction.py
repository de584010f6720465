"""No password leaves an address or a message, however odd it is."""

import string
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.config import redact_text, redact_url

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
