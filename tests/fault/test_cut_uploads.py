"""Uploads to S3 that end at a random byte leave no torn object; ``make soak`` cuts a thousand of them."""

import pytest

from tests.support.stores.cut_uploads import CutUploads

pytestmark = pytest.mark.requirement("R43")

SINGLE, IN_PARTS = 24, 6


def test_an_upload_cut_at_any_byte_leaves_the_object_whole_or_absent(cut_uploads: CutUploads) -> None:
    for seed in range(SINGLE):
        cut_uploads.create(seed)
    assert cut_uploads.whole < SINGLE / 2


def test_an_upload_in_parts_cut_at_any_byte_leaves_the_old_object_or_the_new_one(cut_uploads: CutUploads) -> None:
    for seed in range(IN_PARTS):
        cut_uploads.overwrite(seed)
    assert cut_uploads.whole < IN_PARTS / 2
