"""The mirror's records: backlog, leases, outcomes, failures, circuits, status."""
