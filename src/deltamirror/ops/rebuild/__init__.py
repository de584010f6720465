"""Writing logs again from SQL."""
