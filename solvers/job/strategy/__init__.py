"""Search for a parallelization strategy on a fixed network."""
