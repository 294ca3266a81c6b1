"""Damaged files of every kind are read, checked, drawn and exported; only errors of the project may come out."""
