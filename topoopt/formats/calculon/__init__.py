"""Files of Calculon."""
