"""Schedules of collectives in the formats of others: what readers share."""
