"""Fabrics that a job is compared on, built again for the checker from what they are."""
