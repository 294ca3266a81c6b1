"""Bandwidth allocation: rates of transfers on given routes."""
