"""The engine that trains all systems: loop, checkpoint, curves, and several processes."""
