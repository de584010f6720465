"""Replay gives the state that Delta Lake on Spark recorded beside its own commits, in the version checksums."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from deltamirror.delta.actions import Action, Add, DomainMetadata, Metadata, Protocol, Txn
from deltamirror.delta.lines import decode_commit
from deltamirror.delta.replay import State, reconciliation_key, replay
from deltamirror.errors import InvalidAction, Unsupported
from tests.support.reference_logs.files import commit_files, without_empty_tags
from tests.support.reference_logs.golden import reference

pytestmark = [pytest.mark.requirement("R37"), pytest.mark.reference]

REFERENCE = reference()
CHECKED_LOGS = [log for log in REFERENCE.logs if any(log.glob("*.crc"))]


class Checksum(msgspec.Struct, rename="camel"):
    table_size_bytes: int
    num_files: int
    metadata: Metadata
    protocol: Protocol
    set_transactions: list[Txn] | None = None
    domain_metadata: list[DomainMetadata] | None = None
    all_files: list[Add] | None = None


def commits(log: Path) -> Iterator[tuple[int, list[Action]]]:
    """The commits of a log from version 0 on, up to the first gap."""
    for version, data in enumerate(commit_files(log)):
        yield version, decode_commit(data, source=f"{log}, version {version}")


def check(state: State, checksum: Checksum) -> None:
    assert state.metadata == checksum.metadata
    assert state.protocol == checksum.protocol
    assert len(state.files) == checksum.num_files
    assert sum(add.size for add in state.files.values()) == checksum.table_size_bytes
    if checksum.set_transactions is not None:
        assert state.txns == {txn.app_id: txn for txn in checksum.set_transactions}
    if checksum.domain_metadata is not None:
        assert state.domains == {domain.domain: domain for domain in checksum.domain_metadata}
    if checksum.all_files is not None:
        files = {key: replace(add, data_change=False) for key, add in state.files.items()}
        assert files == {reconciliation_key(add): add for add in checksum.all_files}


@pytest.mark.requirement("R94")
@pytest.mark.parametrize("log", CHECKED_LOGS, ids=REFERENCE.name_of)
def test_the_state_of_every_version_is_the_one_that_its_checksum_records(log: Path) -> None:
    state, checked = State(), set()
    for version, actions in commits(log):
        state.apply(actions)
        path = log / f"{version:020}.crc"
        if path.exists():
            check(state, msgspec.json.decode(without_empty_tags(path.read_bytes()), type=Checksum))
            checked.add(path)
    assert checked == set(log.glob("[0-9]*.crc"))


def test_every_reference_log_has_a_state_but_those_made_to_have_none() -> None:
    failures: defaultdict[str, set[str]] = defaultdict(set)
    for log in REFERENCE.logs:
        try:
            state = replay(actions for _, actions in commits(log))
            _ = (state.protocol, state.metadata)
        except InvalidAction as error:
            failures[error.field or error.rule].add(REFERENCE.name_of(log))
        except Unsupported as error:
            failures[error.code].add(REFERENCE.name_of(log))
    assert failures == {
        **{code: logs for code, logs in REFERENCE.refused_commits.items() if code == Unsupported.code},
        "log.metaData.missing": REFERENCE.without_metadata,
        "log.protocol.missing": REFERENCE.without_protocol,
    }
