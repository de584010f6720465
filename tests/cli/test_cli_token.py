"""Tokens are issued once, listed without themselves, and revoked; the page is served until a signal."""

import re
import urllib.request

from tests.support.interfaces.commands import running
from tests.support.interfaces.prompt import Prompt


def test_a_token_is_shown_once(orders: Prompt) -> None:
    made = orders.json("token", "issue", "ada", "--rights", "operate,read", "--tables", "sales.*", "--expires", "30d")
    assert re.fullmatch(r"dm_[0-9a-f]{16}_[\w-]{43}", made["token"])
    assert (made["rights"], made["tables"], made["state"]) == (["read", "operate"], "sales.*", "live")
    assert made["expires_at"] - made["created_at"] == 30 * 86_400_000
    [listed] = orders.json("token", "list")["tokens"]
    assert listed == {name: value for name, value in made.items() if name != "token"}
    assert made["token"].split("_", 2)[2] not in "\n".join(orders.dump())
    assert orders.json("token", "revoke", "ada")["state"] == "revoked"
    assert "revoked" in orders("token", "list").stdout
    said = orders("token", "issue", "ada", "--rights", "read").stdout
    assert "until it is revoked" in said


def test_wrong_input_is_named(orders: Prompt) -> None:
    orders("token", "issue", "ada", "--rights", "read")
    assert (
        "none of read, operate, write" in orders.error("token", "issue", "b", "--rights", "admin", exits=64)["message"]
    )
    assert "30d" in orders.error("token", "issue", "b", "--rights", "read", "--expires", "soon", exits=64)["message"]
    assert "pattern" in orders.error("token", "issue", "b", "--rights", "read", "--tables", "%", exits=10)["message"]
    assert "revoke ada" in orders.error("token", "issue", "ada", "--rights", "read", exits=12)["hint"]
    assert "token list" in orders.error("token", "revoke", "bob", exits=11)["hint"]
    assert "No tokens" in orders("token", "list", "--catalog", _other(orders)).stdout


def _other(orders: Prompt) -> str:
    orders("init", "--catalog", "sqlite:///other.db")
    return "sqlite:///other.db"


def test_the_page_is_served_until_a_signal(orders: Prompt) -> None:
    with running("serve", "--listen", "127.0.0.1:0", folder=orders.folder) as server:
        with urllib.request.urlopen(server.url) as answer:  # noqa: S310 - our own address
            assert b"orders" in answer.read()
        assert server.stop() == (0, "Stopped.\n", "")


def test_an_address_that_others_reach_is_refused_without_tls(orders: Prompt) -> None:
    error = orders.error("serve", "--listen", "0.0.0.0:0", exits=10)
    assert "serve.tls_cert" in error["hint"]
    assert "--insecure-http" in error["hint"]
    assert "token issue" in orders.error("serve", "--listen", "0.0.0.0:0", "--insecure-http", exits=16)["hint"]
    assert "[HOST:]PORT" in orders.error("serve", "--listen", "nowhere", exits=10)["message"]
