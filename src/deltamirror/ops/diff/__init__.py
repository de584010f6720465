"""Comparing two states of tables."""
