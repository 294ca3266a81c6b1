"""Efficiencies of a GPU, fitted to measured iterations."""
