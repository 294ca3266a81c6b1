"""Exact methods for the joint choice of topology and routing."""
