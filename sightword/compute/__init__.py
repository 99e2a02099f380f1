"""Where work runs: devices and threads."""
