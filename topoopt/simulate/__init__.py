"""Simulated iterations: task graphs of strategies, networks of fabrics, and the time models."""
