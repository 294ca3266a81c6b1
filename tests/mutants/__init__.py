"""Faults put into the product on purpose, and whether the tests see them."""
