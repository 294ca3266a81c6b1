"""What people see of a solution: the HTML report and the summary in the terminal. Reads `topoopt.core` data only."""
