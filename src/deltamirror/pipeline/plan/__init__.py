"""From claims to units of work, and when a checkpoint is due."""
