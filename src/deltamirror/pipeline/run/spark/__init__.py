"""The runner on Spark: local, on a cluster, or behind a Spark Connect server."""
