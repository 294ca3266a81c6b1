"""Lists of links as text."""
