"""The database: sessions, schema, clock, migrations, and one small override for each engine."""
