"""Work spread over processes, and over a cluster of Ray."""
