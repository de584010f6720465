"""Adopting foreign commits."""
