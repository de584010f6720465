"""Foreign commits taken into the history of a table."""
