"""Circuits between the pods of a plan, beside those that matrices choose."""
