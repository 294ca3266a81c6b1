"""Device placement: operators to stages of a pipeline (throughput), or to devices for one step (latency)."""
