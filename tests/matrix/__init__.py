"""Kinds of tables beside readers: which reader opens which kind, by its commits, its checkpoint, or both."""
