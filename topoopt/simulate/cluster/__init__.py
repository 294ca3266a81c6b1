"""Simulation of a cluster that many jobs share: `events` over the `work` of jobs, and jobs at once (`together`)."""
