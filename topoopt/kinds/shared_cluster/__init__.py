"""Shared clusters: jobs that arrive or are there at once, on one network."""
