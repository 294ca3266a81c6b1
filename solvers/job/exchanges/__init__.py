"""Links exchanged one by one where the simulated iteration falls, the strategy kept."""
