"""The mirroring service: the engine, its lanes and jobs, leases, looks at logs, cleanup."""
