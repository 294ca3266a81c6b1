"""The checker of language models in training."""
