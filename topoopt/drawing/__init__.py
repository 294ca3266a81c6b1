"""Drawings and pages: SVG, charts, the picture of a topology, the base of all HTML; reads `topoopt.core` data only."""
