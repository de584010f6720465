"""Holding logs against SQL, and repairing them."""
