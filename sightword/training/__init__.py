"""The engine that trains all systems: loop, checkpoint and curves."""
