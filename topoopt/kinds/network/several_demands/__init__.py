"""One topology for traffic that changes: robust routing and topology, bounded, checked, and held against new links."""
