"""What failures do to a solution, and how it is repaired: the pipeline behind `topoopt resilience`."""
