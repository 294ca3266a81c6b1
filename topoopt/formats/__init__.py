"""Formats of other tools: one folder each, found by the table; exporters take solutions, importers give instances."""
