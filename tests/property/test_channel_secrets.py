"""No secret of a channel leaves it, whatever servers and libraries say."""

import json
import logging
import string
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import quote, unquote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deltamirror import Catalog
from deltamirror.config import AlertChannel, AlertSettings, Secret
from deltamirror.errors import DeltaMirrorError
from deltamirror.ops.alerts.delivery import Dispatcher, send_within
from deltamirror.ops.alerts.messages import trial_message
from deltamirror.ops.alerts.secrecy import without_secrets
from deltamirror.txnlog.alerts.records import AlertChange, AlertKey, Move, record
from tests.support.lakes.lake import execute
from tests.support.monitoring.receivers import http_receiver

pytestmark = pytest.mark.requirement("R46")

WORD = "canary"
ODD = "@:/?#&;=%+,! \t'\"\\[]{}<>.é"
words = st.text(st.sampled_from(ODD + string.ascii_letters), max_size=8).map(lambda odd: f"{odd}{WORD}{odd}")

ADDRESSES: dict[str, str] = {
    "a path": "https://hooks.example/services/{}/B000",
    "several": "https://hooks.example/{}/x/{}?y={}",
    "a parameter": "https://hooks.example/hook?token={}&a=1",
    "a name of a parameter": "https://hooks.example/hook?{}=1",
    "a user": "https://{}@hooks.example/hook",
    "a password": "https://me:{}@hooks.example:8443/hook",
    "a fragment": "https://hooks.example/hook#{}",
    "a host of apprise": "slack://{}/T1/T2",
    "a path of apprise": "tgram://bot/{}",
}
"""Each with a secret, percent-encoded."""

SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "decoded": unquote,
    "in capitals": lambda text: quote(unquote(text)).upper(),
    "encoded by halves": lambda text: quote(unquote(text), safe="/:@"),
    "as Python shows it": lambda text: repr(unquote(text)),
    "as Python shows bytes": lambda text: repr(unquote(text).encode()),
    "as JSON": lambda text: json.dumps(unquote(text)),
    "as a status line is read": lambda text: unquote(text).encode().decode("latin-1"),
}


def channel(url: str, **more: Any) -> AlertChannel:
    kind: Literal["webhook", "apprise"] = "webhook" if url.startswith("http") else "apprise"
    return AlertChannel(name="ours", kind=kind, url=Secret(url), **more)


@given(st.sampled_from(sorted(ADDRESSES)), words, st.sampled_from(sorted(SPELLINGS)))
@example("a path", f"T0/{WORD}", "decoded")
@example("a password", f"p@{WORD}", "as it is")
@example("a parameter", f"a+{WORD}", "decoded")
@example("a path", "\\" * 40 + WORD, "as Python shows it")
@example("a path", f"{WORD}\\u00e9\\", "as JSON")
def test_no_piece_of_an_address_is_repeated_however_it_is_spelled(place: str, word: str, spelling: str) -> None:
    escaped = quote(word, safe="")
    url = ADDRESSES[place].replace("{}", escaped)
    spell = SPELLINGS[spelling]
    for piece in (escaped, url, url.partition("hooks.example")[2] or url):
        said = without_secrets(channel(url), f"cannot reach <{spell(piece)}>: no route")
        assert WORD not in said.lower()
        assert said.endswith(": no route")


@given(words)
@settings(max_examples=40)
def test_an_address_that_is_not_encoded_is_not_repeated_either(word: str) -> None:
    for shape in ("https://hooks.example/{}", "https://me:{}@hooks.example/x", "json://{}"):
        for said in (word, repr(word), quote(word), f"nonnumeric port: {word.partition(':')[2]!r}"):
            assert WORD not in without_secrets(channel(shape.format(word)), said)


def test_no_text_takes_long_however_it_nearly_repeats_an_address() -> None:
    found = channel(f"https://hooks.example/{quote('a' + chr(92))}{'%5C' * 60}{'%25' * 60}{'+%20' * 30}end")
    for near in ("a" + "\\" * 1_000, "%25" * 1_000, "+ " * 1_000, "%5C" * 1_000):
        assert without_secrets(found, f"{near}?").endswith("?")


def test_what_is_no_secret_is_said() -> None:
    found = channel("https://me:hunter2@hooks.example:8443/services/T0/B0?a=1", bearer=Secret("hunter3"))
    said = "<urlopen error [Errno -2] hooks.example:8443: Name or service not known>"
    assert without_secrets(found, said) == said
    assert "hunter" not in without_secrets(found, f"hunter2, hunter3, {b64encode(b'me:hunter2').decode()}")


def due(catalog: Catalog, name: str) -> None:
    """A notification that waits for a channel."""
    key = AlertKey("lag-critical", "table", "t")
    record(catalog.database, [AlertChange(key=key, move=Move.FIRE, at=1, seen=None, channels=(name,), tells=True)])


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # by apprise, on Python below 3.13
@pytest.mark.requirement("R62")
@pytest.mark.parametrize("kind", ["webhook", "apprise"])
def test_a_server_that_repeats_the_path_puts_it_neither_into_sql_nor_into_a_log(
    lake: Catalog, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    with http_receiver(404) as server, caplog.at_level(logging.DEBUG):
        path = f"services/T0%2F{WORD}/{WORD}-2?sig={WORD}"
        server.reason = f"no hook T0/{WORD} and {WORD}-2"
        address = server.url.removesuffix("hook") + path
        if kind == "apprise":
            address = address.replace("http://", f"json://me:{WORD}@")
        found = channel(address)
        due(lake, found.name)
        Dispatcher(lake.database).drain(found, AlertSettings())
        with pytest.raises(DeltaMirrorError) as caught:
            send_within(found, trial_message(1), seconds=60)
    [(error,)] = execute(lake, "SELECT error FROM dl_alert_deliveries")
    assert "404" in error
    assert WORD not in f"{error} {caught.value} {caught.value.hint} {caplog.text}"


@pytest.mark.requirement("R62")
def test_a_user_and_a_password_in_an_address_are_sent_as_http_wants_them() -> None:
    with http_receiver() as server:
        address = server.url.replace("http://", "http://me:p%40ss@")
        send_within(channel(address), trial_message(1), seconds=60)
        got = server.next()
    assert got.headers["Authorization"] == f"Basic {b64encode(b'me:p@ss').decode()}"
    assert got.headers["Host"] == server.url.split("/")[2]
    problems = AlertSettings(channels=(channel(address, bearer=Secret("x")),)).contradictions([])
    assert [what for _, what in problems] == [
        "channel 'ours': its `url` has a user, and `bearer` is given: a request is authorised in one way"
    ]
