"""One small override for each database engine."""
