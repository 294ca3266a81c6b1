"""One configuration of an instance, evaluated."""
