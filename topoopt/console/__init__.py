"""What every command shares: where it writes, how it says errors, exit codes, progress, Ctrl-C, files it writes to."""
