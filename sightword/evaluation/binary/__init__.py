"""Binary decisions: thresholds and scores."""
