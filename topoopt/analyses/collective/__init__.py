"""Collectives without an instance: what is best on a network, which networks are best, others' schedules."""
