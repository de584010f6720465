"""What a process tells about its own work."""
