"""Jobs as instances of kind `dag-topology`."""
