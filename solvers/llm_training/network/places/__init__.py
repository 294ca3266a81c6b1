"""The fastest places of blocks of ranks on a given graph, proven where servers are few."""
