"""What is told of plans and networks beside solving them: one folder an analysis."""
