"""Where work runs: threads, processes, a cluster of Ray."""
