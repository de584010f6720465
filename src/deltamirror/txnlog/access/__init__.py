"""Access tokens: who may read, operate and write over HTTP, and which tables."""
