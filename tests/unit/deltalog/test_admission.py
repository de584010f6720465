"""Which tables may come under SQL."""

import pytest

from deltamirror.delta.actions import Protocol
from deltamirror.deltalog.admission import require_importable
from deltamirror.errors import Unsupported


def protocol(*features: str, reader: bool) -> Protocol:
    readers = {"min_reader_version": 3, "reader_features": list(features)} if reader else {"min_reader_version": 1}
    return Protocol(min_writer_version=7, writer_features=list(features), **readers)


@pytest.mark.parametrize(
    "found",
    [
        Protocol(min_reader_version=1, min_writer_version=2),
        Protocol(min_reader_version=2, min_writer_version=5),
        protocol("deletionVectors", "v2Checkpoint", "typeWidening-preview", reader=True),
        protocol("collations", "someWriterFeature", reader=False),
    ],
)
def test_what_we_can_read_may_be_imported(found: Protocol) -> None:
    require_importable(found, location="s3://lake/t")


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (protocol("catalogManaged", reader=True), "is managed by a catalog"),
        (protocol("catalogOwned-preview", reader=True), "is managed by a catalog"),
        (protocol("coordinatedCommits-preview", reader=False), "is managed by a catalog"),
        (protocol("redirectWriterOnly-preview", reader=False), "is redirected"),
        (protocol("somethingUnheardOf", reader=True), "reader features somethingUnheardOf"),
        (Protocol(min_reader_version=4, min_writer_version=7), "reader version 4"),
    ],
)
def test_what_we_do_not_understand_is_refused_with_the_reason(found: Protocol, message: str) -> None:
    with pytest.raises(Unsupported, match=message) as caught:
        require_importable(found, location="s3://lake/t")
    assert "s3://lake/t" in caught.value.message
    assert set(caught.value.features) == set(found.reader_features or found.writer_features or ())
    assert caught.value.hint
