"""The authoritative log: Delta transactions in a SQL database."""
