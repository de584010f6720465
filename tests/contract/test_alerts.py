"""Alerts in SQL: they fire and end by the database's clock, and one service sends each notification, at least once."""

import logging
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine
from deltamirror.config import (
    AlertChannel,
    AlertRule,
    AlertSettings,
    LiveSettings,
    MirrorSettings,
    Secret,
    Settings,
)
from deltamirror.errors import NotFound
from deltamirror.ops.alerts.background import AlertWatch, evaluate_now
from deltamirror.ops.alerts.delivery import Dispatcher
from deltamirror.ops.alerts.rules import channels_in_force
from deltamirror.pipeline.service.shutdown import Ending
from deltamirror.steps import Moment, Step, observed
from deltamirror.txnlog.alerts import alerts_now, end_silence, silence, silences
from deltamirror.txnlog.alerts.deliveries import claim, record_failed, record_sent
from deltamirror.txnlog.alerts.records import AlertChange, AlertKey, AlertState, Facts, Move, record
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.pause import pause_all, resume_all
from tests.support.databases.virtual_clock import VirtualClock, clocked
from tests.support.lakes.lake import create, execute
from tests.support.mirrors.local import append, following, local_settings, make_table, mirror_of
from tests.support.monitoring.receivers import http_receiver, smtp_receiver
from tests.support.monitoring.scraping import value

KEY = AlertKey("lag-warning", "table", "t")
NOW = int(time.time() * 1000)
"""Resolved alerts of long ago are swept."""


def alerting(*channels: AlertChannel, rules: tuple[AlertRule, ...] = (), **more: Any) -> Settings:
    """Settings of a service that evaluates alerts, and no other part of which takes time."""
    alerts = AlertSettings(channels=channels, rules=rules, **{"interval": 0.05, "retry_base": 0.01, **more})
    return replace(local_settings(), alerts=alerts)


def webhook(url: str, **more: Any) -> AlertChannel:
    return AlertChannel(name=more.pop("name", "hook"), kind=more.pop("kind", "webhook"), url=Secret(url), **more)


def moves(changes: list[AlertChange]) -> list[tuple[str, str, Move]]:
    return sorted((change.key.rule, change.key.subject, change.move) for change in changes)


def send_all(database: Database, settings: Settings) -> None:
    """Send what is due, of every channel, in this thread."""
    dispatcher = Dispatcher(database)
    for channel in channels_in_force(settings):
        dispatcher.drain(channel, settings.alerts)


@pytest.fixture
def by_clock(sqlite_lake: str) -> Iterator[tuple[Catalog, VirtualClock]]:
    with clocked(sqlite_lake) as found:
        yield found


@pytest.mark.requirement("R61")
def test_a_lag_of_59_seconds_pages_nobody_and_one_of_61_does_with_the_next_evaluation_until_it_is_published(
    by_clock: tuple[Catalog, VirtualClock], tmp_path: Path
) -> None:
    catalog, clock = by_clock
    table = make_table(catalog, tmp_path)
    settings = alerting()
    with mirror_of(catalog) as engine:
        engine.run(once=True)
        clock.advance(1)
        append(table)  # nobody attempts to publish it
        clock.advance(59)
        assert evaluate_now(catalog.database, settings) == []
        clock.advance(2)
        assert moves(evaluate_now(catalog.database, settings)) == [("lag-warning", "t", Move.FIRE)]
        [alert] = alerts_now(catalog.database)
        assert (alert.state, alert.version, alert.lag_ms, alert.severity) == (AlertState.FIRING, 1, 61_000, "warning")
        clock.advance(240)
        assert moves(evaluate_now(catalog.database, settings)) == [
            ("lag-critical", "t", Move.FIRE),
            ("no-progress", "", Move.FIRE),
        ]
        engine.run(once=True)
    assert {move for _, _, move in moves(evaluate_now(catalog.database, settings))} == {Move.RESOLVE}
    assert alerts_now(catalog.database) == []
    assert len(alerts_now(catalog.database, resolved=True)) == 3


@pytest.mark.requirement("R116")
def test_a_table_that_is_disabled_is_not_late_whether_it_is_paused_or_not(
    by_clock: tuple[Catalog, VirtualClock],
) -> None:
    catalog, clock = by_clock
    create(catalog, "t")
    clock.advance(3600)
    off = replace(alerting(), mirror=MirrorSettings(enabled=False))
    assert evaluate_now(catalog.database, off) == []
    pause_all(catalog.database)
    assert evaluate_now(catalog.database, off) == []
    resume_all(catalog.database)
    fired = {rule for rule, _, move in moves(evaluate_now(catalog.database, alerting())) if move is Move.FIRE}
    assert fired >= {"lag-warning", "lag-critical"}
    assert {move for _, _, move in moves(evaluate_now(catalog.database, off))} == {Move.RESOLVE}


@pytest.mark.requirement("R79")
def test_a_rule_that_is_added_to_the_file_fires_though_the_next_evaluation_is_far_away(
    lake: Catalog, tmp_path: Path
) -> None:
    create(lake, "t")
    file = tmp_path / "alerts.toml"
    with http_receiver() as hook:
        channel = f"[[alerts.channels]]\nname = 'hook'\nkind = 'webhook'\nurl = '{hook.url}'\n"
        file.write_text(f"alerts.interval = 86400\n{channel}")
        live = LiveSettings.load(environment={}, config=file, settled=0.0)
        with AlertWatch(lake.database, live, ending=Ending(lease=lambda: 60.0, give_up=lambda: None)):
            rule = "[[alerts.rules]]\nname = 'mine'\nmetric = 'lag_versions'\nthreshold = 0.0\n"
            file.write_text(f"alerts.interval = 86400\n{channel}{rule}")
            live.check()
            assert hook.next().document["rule"] == "mine"


@pytest.mark.requirement("R77")
def test_a_threshold_of_10_seconds_for_one_table_leaves_the_others_at_theirs(
    by_clock: tuple[Catalog, VirtualClock],
) -> None:
    catalog, clock = by_clock
    for name in ("a", "b"):
        create(catalog, name)
    own = AlertRule(name="lag of a", metric="lag_seconds", threshold=10.0, tables="a")
    clock.advance(15)
    assert moves(evaluate_now(catalog.database, alerting(rules=(own,)))) == [("lag of a", "a", Move.FIRE)]


@pytest.mark.requirement("R81")
def test_conditions_have_to_hold_for_as_long_as_their_rule_says(by_clock: tuple[Catalog, VirtualClock]) -> None:
    catalog, clock = by_clock
    create(catalog, "t")
    settings = alerting(rules=(AlertRule(name="held", metric="lag_versions", threshold=0.0, for_=10.0),))
    assert moves(evaluate_now(catalog.database, settings)) == [("held", "t", Move.BEGIN)]
    assert [alert.state for alert in alerts_now(catalog.database)] == [AlertState.PENDING]
    clock.advance(9)
    assert evaluate_now(catalog.database, settings) == []
    clock.advance(1)
    assert moves(evaluate_now(catalog.database, settings)) == [("held", "t", Move.FIRE)]


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # by apprise, on Python below 3.13
@pytest.mark.requirement("R62")
@pytest.mark.requirement("R80")
def test_webhook_and_mail_server_get_the_alert_with_all_that_is_needed_and_a_message_when_it_is_over(
    by_clock: tuple[Catalog, VirtualClock], tmp_path: Path
) -> None:
    catalog, clock = by_clock
    make_table(catalog, tmp_path)
    with http_receiver() as hook, smtp_receiver() as mails, mirror_of(catalog) as engine:
        address = f"mailto://127.0.0.1:{mails.port}?from=dm@example.com&to=ops@example.com&mode=insecure"
        settings = alerting(
            webhook(hook.url, bearer=Secret("hunter2"), signing_key=Secret("hunter3")),
            AlertChannel(name="mail", kind="apprise", url=Secret(address)),
            rules=(AlertRule(name="no-progress", enabled=False),),
        )
        clock.advance(61)
        evaluate_now(catalog.database, settings)
        send_all(catalog.database, settings)
        request, mail = hook.next(), mails.next()
        assert request.headers["Authorization"] == "Bearer hunter2"
        assert request.headers["X-Deltamirror-Signature"].startswith("sha256=")
        told = request.document
        assert (told["event"], told["rule"], told["severity"], told["count"]) == ("firing", "lag-warning", "warning", 1)
        [alert] = told["alerts"]
        assert (alert["subject"], alert["version"], alert["lag_seconds"]) == ("t", 0, 61.0)
        assert "waits for a service" in alert["cause"]
        assert "`deltamirror status t`" in alert["action"]
        for word in ("[FIRING]", "table t", "version 0", "lag 61 s", "waits for a service", "deltamirror status t"):
            assert word in mail
        engine.run(once=True)
        evaluate_now(catalog.database, settings)
        send_all(catalog.database, settings)
        assert (hook.next().document["event"], "[RESOLVED]" in mails.next()) == ("resolved", True)
        send_all(catalog.database, settings)
        assert (hook.requests.empty(), mails.mails.empty()) == (True, True)


@pytest.mark.requirement("R51")
@pytest.mark.requirement("R54")
def test_a_lasting_failure_is_one_alert_of_a_running_service_and_its_repair_is_told(
    lake: Catalog, tmp_path: Path
) -> None:
    make_table(lake, tmp_path)
    in_the_way = tmp_path / "t"
    in_the_way.write_text("not a folder")
    sent = partial(value, "deltamirror_alert_deliveries_total", channel="hook", outcome="sent")
    before = sent()
    with http_receiver() as hook:
        channel = webhook(hook.url)
        settings = alerting(channel, rules=(AlertRule(name="failure-escalated", channels=("hook",)),))
        settings = replace(settings, mirror=replace(settings.mirror, retry_permanent=0.05))
        with MirrorEngine(settings=settings, database=lake.database) as engine, following(engine):
            told = hook.next().document
            assert (told["event"], told["rule"], told["severity"]) == ("firing", "failure-escalated", "critical")
            assert "invalid-location" in told["alerts"][0]["cause"]
            assert "`deltamirror report t 0`" in told["alerts"][0]["action"]
            assert value("deltamirror_alerts_firing", severity="critical") == 1
            in_the_way.unlink()
            assert hook.next().document["event"] == "resolved"
        assert hook.requests.empty()
    [ended] = [alert for alert in alerts_now(lake.database, resolved=True) if alert.rule == "failure-escalated"]
    assert ended.state is AlertState.RESOLVED
    assert sent() == before + 2


@pytest.mark.requirement("R62")
def test_two_services_that_evaluate_at_once_send_one_message(catalog: Catalog) -> None:
    """On every engine: the conditional changes are SQL's."""
    create(catalog, "t")
    with http_receiver() as hook:
        settings = alerting(webhook(hook.url), rules=(AlertRule(name="mine", metric="lag_versions", threshold=0.0),))
        start, made, errors = threading.Barrier(2), [], []

        def evaluating() -> None:
            start.wait()
            try:
                made.append(evaluate_now(catalog.database, settings))
                send_all(catalog.database, settings)
            except Exception as error:  # noqa: BLE001  the test fails below
                errors.append(error)

        threads = [threading.Thread(target=evaluating) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert sorted(len(changes) for changes in made) == [0, 1]
        send_all(catalog.database, settings)
        assert hook.next().document["rule"] == "mine"
        assert hook.requests.empty()


@pytest.mark.requirement("R62")
@pytest.mark.parametrize("step", [Step.CLAIM_NOTIFICATIONS, Step.RECORD_NOTIFICATIONS])
def test_a_notification_whose_sender_died_is_sent_by_another_service(
    by_clock: tuple[Catalog, VirtualClock], step: Step
) -> None:
    """After its claim nothing was sent; before its record, the message arrives once more."""
    catalog, clock = by_clock
    create(catalog, "t")
    struck = Moment.AFTER if step is Step.CLAIM_NOTIFICATIONS else Moment.BEFORE
    with http_receiver() as hook:
        settings = alerting(webhook(hook.url), rules=(AlertRule(name="mine", metric="lag_versions", threshold=0.0),))
        evaluate_now(catalog.database, settings)
        first = Dispatcher(catalog.database)
        with observed(dying(step, struck)), pytest.raises(Dead):
            first.drain(settings.alerts.channels[0], settings.alerts)
        sent_before = hook.requests.qsize()
        assert sent_before == (0 if step is Step.CLAIM_NOTIFICATIONS else 1)
        send_all(catalog.database, settings)
        assert hook.requests.qsize() == sent_before, "its claim lasts"
        clock.advance(60)
        send_all(catalog.database, settings)
        assert hook.requests.qsize() == sent_before + 1
        send_all(catalog.database, settings)
        assert hook.requests.qsize() == sent_before + 1


class Dead(BaseException):
    """A process that is no more."""


def dying(step: Step, moment: Moment) -> Any:
    def strike(when: Moment, what: Step) -> None:
        if (when, what) == (moment, step):
            raise Dead

    return strike


@pytest.mark.requirement("R54")
def test_a_change_that_another_service_made_is_not_made_again(catalog: Catalog) -> None:
    """On every engine, move by move."""
    database = catalog.database

    def change(move: Move, at: int, **more: Any) -> AlertChange:
        seen = next((row for row in alerts_now(database, resolved=True) if row.key == KEY), None)
        return AlertChange(
            key=KEY, move=move, at=NOW + at, seen=seen, channels=("hook",), facts=Facts(cause="it is late"), **more
        )

    for move, at, tells in (
        (Move.BEGIN, 10, False), (Move.FORGET, 20, False), (Move.BEGIN, 30, False), (Move.FIRE, 40, False),
        (Move.ANNOUNCE, 50, True), (Move.RESOLVE, 60, True), (Move.FIRE, 70, True),
    ):  # fmt: skip
        wanted = change(move, at, tells=tells)
        assert record(database, [wanted]) == [wanted]
        assert record(database, [wanted]) == [], move
    [row] = alerts_now(database)
    assert (row.state, row.since, row.fired_at, row.notified_at) == (AlertState.FIRING, *[NOW + 70] * 3)
    assert (row.announced, row.resolved_at) == (True, None)


def test_claims_are_exclusive_and_end_and_what_changes_meanwhile_is_told_afterwards(catalog: Catalog) -> None:
    """On every engine."""
    database = catalog.database
    fired = AlertChange(key=KEY, move=Move.FIRE, at=NOW, seen=None, channels=("hook", "log"), tells=True)
    record(database, [fired])
    mine = claim(database, "hook", seconds=600)
    assert mine is not None
    assert ([alert.key for alert in mine.alerts], mine.event, mine.attempts) == ([KEY], "firing", 0)
    assert claim(database, "hook", seconds=600) is None
    record_failed(database, mine, "HTTP 503", pause=0.0)
    again = claim(database, "hook", seconds=600)
    assert again is not None
    assert again.attempts == 1
    [row] = alerts_now(database)
    record(database, [AlertChange(key=KEY, move=Move.RESOLVE, at=NOW, seen=row, tells=True)])
    record_sent(database, again, repeat=0.0)
    assert claim(database, "hook", seconds=600) is None, "what is being told is told first"
    execute(catalog, "UPDATE dl_alert_deliveries SET claimed_until = 0")  # as when the claim has ended
    last = claim(database, "hook", seconds=600)
    assert last is not None
    assert last.event == "resolved"
    record_sent(database, last, repeat=60.0)
    assert claim(database, "hook", seconds=600) is None, "what is over is not repeated"


def test_an_alert_that_was_silenced_is_told_when_the_silence_ends_and_lasts(
    by_clock: tuple[Catalog, VirtualClock],
) -> None:
    catalog, clock = by_clock
    for name in ("t", "u"):
        create(catalog, name)
    settings = alerting(rules=(AlertRule(name="no-progress", enabled=False),))
    quiet = silence(catalog.database, seconds=600, reason="maintenance", author="me", subject="t")
    assert silences(catalog.database) == [quiet]
    clock.advance(61)
    assert {change.key.subject: change.tells for change in evaluate_now(catalog.database, settings)} == {
        "t": False,
        "u": True,
    }
    assert evaluate_now(catalog.database, settings) == []
    clock.advance(540)
    assert silences(catalog.database) == []
    told = [change for change in evaluate_now(catalog.database, settings) if change.key.rule == "lag-warning"]
    assert [(change.key.subject, change.move, change.tells) for change in told] == [("t", Move.ANNOUNCE, True)]


def test_a_silence_ends_when_it_is_told_to(lake: Catalog) -> None:
    quiet = silence(lake.database, seconds=600, reason="maintenance", author="me", rule="lag-*")
    assert quiet.covers(KEY)
    assert not quiet.covers(AlertKey("quarantined", "table", "t"))
    assert end_silence(lake.database, quiet.silence_id) == quiet
    with pytest.raises(NotFound, match="no silence"):
        end_silence(lake.database, quiet.silence_id)


@pytest.mark.requirement("R62")
def test_a_channel_that_fails_is_tried_again_and_alerted_on_another_one(
    by_clock: tuple[Catalog, VirtualClock], caplog: pytest.LogCaptureFixture
) -> None:
    catalog, clock = by_clock
    create(catalog, "t")
    mine = AlertRule(name="mine", metric="lag_versions", threshold=0.0, channels=("broken",))
    counts: list[tuple[str, str]] = []
    with http_receiver(503) as broken, http_receiver() as hook, caplog.at_level(logging.INFO):
        secret = broken.url.replace("/hook", "/T0KEN/hook?token=hunter2")
        settings = alerting(webhook(secret, name="broken"), webhook(hook.url), rules=(mine,), retry_base=1.0)
        dispatcher = Dispatcher(catalog.database, counted=lambda *what: counts.append(what))
        for _ in range(3):
            evaluate_now(catalog.database, settings)
            for channel in settings.alerts.channels:
                dispatcher.drain(channel, settings.alerts)
            clock.advance(10)
        evaluate_now(catalog.database, settings)
        dispatcher.drain(settings.alerts.channels[1], settings.alerts)
        told = hook.next().document
        assert (told["rule"], told["alerts"][0]["subject"]) == ("notification-failed", "broken")
        cause = "3 attempts to send a notification failed: channel 'broken': HTTP 503 Service Unavailable"
        assert told["alerts"][0]["cause"] == cause
        assert "`deltamirror alert test broken`" in told["alerts"][0]["action"]
        broken.status = 200
        dispatcher.drain(settings.alerts.channels[0], settings.alerts)
        assert counts == [("broken", "failed")] * 3 + [("hook", "sent"), ("broken", "sent")]
        evaluate_now(catalog.database, settings)
        dispatcher.drain(settings.alerts.channels[1], settings.alerts)
        assert hook.next().document["event"] == "resolved"
    assert "hunter2" not in caplog.text
    assert "T0KEN" not in caplog.text


def test_a_channel_that_hangs_is_given_up_in_time_and_holds_up_neither_evaluation_nor_other_channels(
    lake: Catalog,
) -> None:
    create(lake, "t")
    with http_receiver() as hanging, http_receiver() as hook:
        hanging.open.clear()
        mine = AlertRule(name="mine", metric="lag_versions", threshold=0.0)
        channels = (webhook(hanging.url, name="hangs"), webhook(hook.url))
        settings = alerting(*channels, rules=(mine,), timeout=0.2)
        ending = Ending(lease=lambda: 60.0, give_up=lambda: None)
        with AlertWatch(lake.database, LiveSettings.of(settings), ending=ending):
            assert hook.next().document["rule"] == "mine"
            assert hanging.next().document["rule"] == "mine"
            hanging.next()  # tried again
            hanging.open.set()


@pytest.mark.requirement("R80")
def test_slack_and_alertmanager_get_what_they_understand(by_clock: tuple[Catalog, VirtualClock]) -> None:
    """No Alertmanager is to be had here: a listener takes what its API v2 does."""
    catalog, clock = by_clock
    for name in ("t", "u"):
        create(catalog, name)
    with http_receiver() as slack, http_receiver() as manager:
        settings = alerting(
            webhook(slack.url, name="slack", kind="slack"),
            webhook(manager.url.removesuffix("/hook"), name="manager", kind="alertmanager", repeat=30.0),
            rules=(AlertRule(name="no-progress", enabled=False),),
        )
        clock.advance(61)
        evaluate_now(catalog.database, settings)
        send_all(catalog.database, settings)
        told = slack.next().document
        assert told["text"] == "[FIRING] warning: lag-warning: 2 tables"
        assert [line.partition(",")[0] for line in told["attachments"][0]["text"].split("\n")] == ["table t", "table u"]
        request = manager.next()
        assert request.path == "/api/v2/alerts"
        first, second = request.document
        assert first["labels"] == {
            "alertname": "lag-warning", "severity": "warning", "job": "deltamirror", "table": "t",
        }  # fmt: skip
        assert second["labels"]["table"] == "u"
        assert (first["annotations"]["version"], first["annotations"]["lag_seconds"]) == ("0", "61")
        assert first["startsAt"] < first["endsAt"]
        send_all(catalog.database, settings)
        assert manager.requests.empty()
        clock.advance(30)
        send_all(catalog.database, settings)
        assert len(manager.next().document) == 2, "Alertmanager forgets what is not repeated"
        assert slack.requests.empty()


def test_the_log_is_a_channel(by_clock: tuple[Catalog, VirtualClock], caplog: pytest.LogCaptureFixture) -> None:
    catalog, clock = by_clock
    create(catalog, "t")
    settings = alerting(rules=(AlertRule(name="no-progress", enabled=False),))
    clock.advance(61)
    evaluate_now(catalog.database, settings)
    send_all(catalog.database, settings)
    [line] = [each.getMessage() for each in caplog.records if each.name == "deltamirror.alerts"]
    assert line.startswith("[FIRING] warning: lag-warning: table t, version 0, lag 61 s: ")


def test_what_is_wrong_with_a_log_fires_until_it_is_repaired(lake: Catalog, tmp_path: Path) -> None:
    table = make_table(lake, tmp_path)
    settings = alerting()
    with mirror_of(lake) as engine:
        append(table, 2)
        engine.run(once=True)
        execute(lake, "UPDATE dl_tables SET quarantined_at = 1, quarantine_reason = 'other bytes in the log'")
        [fired] = evaluate_now(lake.database, settings)
        assert (fired.key, fired.severity) == (AlertKey("quarantined", "table", "t"), "critical")
        assert fired.facts.cause == "other bytes in the log"
        assert "`deltamirror repair t`" in fired.facts.action
        execute(lake, "UPDATE dl_tables SET quarantined_at = NULL, quarantine_reason = NULL")
        breaker = "INSERT INTO dl_breakers (store, state, failures, successes, changed_at, error_code, error_message)"
        execute(lake, f"{breaker} VALUES ('file://', 'open', 5, 0, 1, 'unavailable', 'no answer')")
        changes = evaluate_now(lake.database, settings)
    assert moves(changes) == [("circuit-open", "file://", Move.FIRE), ("quarantined", "t", Move.RESOLVE)]
    assert changes[0].facts.cause == "5 failures in a row, the last: unavailable: no answer"
