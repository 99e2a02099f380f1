"""Binary decisions by energies: threshold, scores, mistakes."""
