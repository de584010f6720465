"""The content of the log in SQL: lines in chunks, typed rows, states, versions that were superseded."""
