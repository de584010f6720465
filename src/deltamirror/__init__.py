"""Delta Lake tables whose transaction log lives in a SQL database."""
