"""The rules of files in a log, and the findings where a file breaks one."""
