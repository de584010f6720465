"""Validating the log of any Delta table: every file against the rules of ``delta/validation``. Nothing is written."""
