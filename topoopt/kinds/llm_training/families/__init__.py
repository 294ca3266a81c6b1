"""Families of models of Hugging Face transformers, a literal table each: what a `config.json` says of which layers."""
