"""The command ``deltamirror``."""

from deltamirror.cli.main import cli, main

__all__ = ["cli", "main"]
