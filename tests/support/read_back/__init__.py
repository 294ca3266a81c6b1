"""What exporters write, read back; readers share no code with writers but names of files and columns."""
