"""Time, memory and traffic of an iteration of a language model in training."""
