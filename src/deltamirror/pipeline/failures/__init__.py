"""What follows from failures: backoff, circuits, escalation, advice."""
