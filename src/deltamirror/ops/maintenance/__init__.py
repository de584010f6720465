"""Maintenance of tables that a service does beside mirroring."""
