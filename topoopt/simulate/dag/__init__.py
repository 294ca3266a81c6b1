"""Graphs of computation and transfers over circuits between pods."""
