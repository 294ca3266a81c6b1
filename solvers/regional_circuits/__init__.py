"""Circuits of an optical switch beside an electrical network: exact matchings, greedy ones, and when to switch."""
