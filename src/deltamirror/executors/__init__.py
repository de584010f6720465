"""Jobs on Spark, those of the pipeline and those that write rows: access of executors to stores, and Spark's errors."""
