"""Formats of other tools, by the tables of `table`: exporters take solutions, importers give instances."""
