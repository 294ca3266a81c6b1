"""Circuits between pods from the graph of a job: branch and bound on circuits, bounds from windows of time."""
