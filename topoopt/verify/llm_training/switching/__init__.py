"""The checker of steps whose circuits are set anew: code of its own throughout."""
