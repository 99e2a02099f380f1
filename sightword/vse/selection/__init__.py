"""The choice of the best snapshots, the model card, and the scores of every kept epoch."""
