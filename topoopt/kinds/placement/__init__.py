"""Device placement: operators of a graph on devices."""
