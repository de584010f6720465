"""Measurements of deltamirror beside delta-rs and beside the bare database: ``python -m benchmarks``."""
