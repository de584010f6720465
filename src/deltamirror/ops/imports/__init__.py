"""Importing tables that exist."""
