"""``INSERT … ON CONFLICT``, which SQLAlchemy knows as a matter of PostgreSQL; the other two spell it the same way."""

from sqlalchemy.dialects.postgresql import insert as upsert

__all__ = ["upsert"]
