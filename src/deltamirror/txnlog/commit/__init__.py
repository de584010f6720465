"""The way of a commit: request, draft, staging, conflicts, ratification."""
