"""Pictures: any file a lab has to RGB, resized, kept without loss in a few shards."""
