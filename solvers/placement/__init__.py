"""Device placement: operators to stages of a pipeline (throughput)."""
