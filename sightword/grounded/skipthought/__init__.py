"""SkipThought: an encoder of sentences that learns from ordered text (Kiros et al. 2015)."""
