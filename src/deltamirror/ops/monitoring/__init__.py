"""The state of a catalog as metrics."""
