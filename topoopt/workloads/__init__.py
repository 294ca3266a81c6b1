"""Model families as operator graphs, and where operator times come from (measured profiles, analytic devices)."""
