"""The store of features: immutable segments named by their hash, in a folder or in object storage."""
