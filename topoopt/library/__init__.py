"""What `import topoopt` offers beside the kinds: problems made in code, comparisons, tables and pictures of results."""
