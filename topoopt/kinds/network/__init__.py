"""Network problems without a job: a demand is routed over a topology, or the topology is sought as well."""
