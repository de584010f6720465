"""The histories of imported tables on their way into the catalog."""
