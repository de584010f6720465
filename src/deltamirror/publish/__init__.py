"""Publishing: commits, version checksums and checkpoints become objects of ``_delta_log/``."""
