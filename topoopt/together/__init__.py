"""Jobs run together on a cluster: planned, drawn, simulated, summed up and checked (kind `shared-load`)."""
