"""Maintenance of tables: files that no version needs, and earlier versions brought back."""
