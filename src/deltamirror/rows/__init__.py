"""Rows in and out: Arrow data to data files with their adds, and the files of a snapshot to Arrow data."""
