"""Work in processes of our own: solvers that must be killed when they overrun, and parts of a search side by side."""
