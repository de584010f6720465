"""The commit API: HTTP for writers in any language, ``/api/v1/tables/…/commits`` and ``/api/v1/commits``."""
