"""A thousand uploads to S3, each cut at a random byte: ``CUT_UPLOADS``."""

import os
import random

import pytest

from tests.support.stores.cut_uploads import CutUploads

COUNT = int(os.environ.get("CUT_UPLOADS", "1000"))
SEED = int(os.environ.get("SOAK_SEED", str(random.SystemRandom().randrange(10**6))))


@pytest.mark.soak
@pytest.mark.requirement("R43")
def test_a_thousand_uploads_cut_at_any_byte_leave_no_torn_object(cut_uploads: CutUploads) -> None:
    """A fifth of them in parts."""
    for seed in range(SEED, SEED + COUNT):
        (cut_uploads.create if seed % 5 else cut_uploads.overwrite)(seed)
    assert cut_uploads.whole < COUNT / 2
