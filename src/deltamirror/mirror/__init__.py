"""From the lines of a commit to the objects of ``_delta_log/``: no SQL, no Spark."""
