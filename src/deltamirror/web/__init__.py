"""What a process serves over HTTP."""
