"""What a process serves over HTTP: health and metrics of a service, and the status page of a catalog."""
