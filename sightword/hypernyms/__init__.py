"""Hypernyms: a taxonomy, embeddings of its concepts, and scores of predicted hypernym pairs (Vendrov et al. 2016)."""
