"""Decodes any common picture file to RGB, resizes it, and keeps it without loss in a few shards."""
