"""Visual-semantic embedding: the system that trains on captions and pictures."""
