"""The training run: batches, objective, learning rate, the loop, checkpoints, and the snapshots it keeps."""
