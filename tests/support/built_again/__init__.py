"""Fabrics of the simulator, built by other code."""
