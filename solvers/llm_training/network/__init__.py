"""Networks for strategies of training: degree split, rings, routes, places of ranks; and the best strategy on each."""
