"""How to parallelise the training of a language model: files and pages."""
