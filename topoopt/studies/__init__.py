"""Batch studies: a study file expanded into runs of the command line, each in a process of its own.

`expand.read_study` makes the runs, `runner.run_study` does those that are missing, `collect.collect` makes one table of
them. A run is known by the hash of everything that determines its result, and its directory appears whole or not at
all, so a study can be killed at any moment and resumed.
"""
