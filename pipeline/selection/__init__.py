"""Choosing snapshots on dev, and the ensemble of the best."""
