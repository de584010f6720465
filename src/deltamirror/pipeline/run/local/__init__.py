"""Units of work on threads of this process."""
