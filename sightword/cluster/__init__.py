"""Work on a cluster of Ray: opening the cluster, checking its nodes, and spreading work over its workers."""
