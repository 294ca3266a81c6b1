"""Networks for strategies of training: degree split, rings, routes, where ranks stand; and the best strategy on each."""
