"""The Calculon model again, execution by execution, for the checker."""
