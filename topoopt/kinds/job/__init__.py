"""Training jobs: parallelization strategy, topology and routes together."""
