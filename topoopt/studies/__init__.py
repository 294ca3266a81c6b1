"""Batch studies: a study file is expanded into runs of the command line, each in a process of its own.

`expand.read_study` makes the runs, `runner.run_study` does those that are missing, `results` makes a table of them and
`report` a page. A run is named by the hash of everything that determines it; its line in the table appears whole or not
at all, so a study can be killed at any moment and resumed.
"""
