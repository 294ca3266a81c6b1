"""Circuits of a region beside an electrical network: what traffic takes on them."""
