"""Days of servers that are down: what is left of a plan, and what circuits and spare servers gain."""
