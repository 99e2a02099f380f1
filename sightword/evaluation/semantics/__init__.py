"""Semantic evaluation of a sentence encoder by SentEval's tasks: similarity, relatedness, classification."""
