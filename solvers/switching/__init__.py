"""Which ports serve what inside a step."""
