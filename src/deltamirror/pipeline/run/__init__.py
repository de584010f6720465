"""Running units of work: in this process or on Spark."""
