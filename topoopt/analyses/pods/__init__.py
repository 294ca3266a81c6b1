"""`topoopt pods`: strategies of a language model and the circuits between its pods, chosen together."""
