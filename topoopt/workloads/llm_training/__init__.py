"""Parallel training of language models: parameters, operations and published results."""
