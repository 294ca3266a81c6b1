"""Circuits of an optical switch for all-to-all traffic, beside an electrical network."""
