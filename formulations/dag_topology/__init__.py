"""Circuits between pods from the graph of a job."""
