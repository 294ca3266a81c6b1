"""Circuits of an optical switch beside an electrical network."""
