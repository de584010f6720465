"""The rows of a checkpoint: from lines, from Parquet, and as the reference writer lays them out."""
