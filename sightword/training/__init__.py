"""Training: batches, learning rate, the loop, and the snapshots it keeps."""
