"""Scores of predicted hypernyms."""
