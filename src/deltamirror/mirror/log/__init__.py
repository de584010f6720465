"""A log that anybody wrote: what is there, which versions it can give, and their states."""
