"""The status page: what the mirror does, for people, and the same numbers as JSON."""
