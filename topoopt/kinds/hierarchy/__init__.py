"""Hierarchical networks: the bandwidth of every dimension."""
