"""Every kept epoch of a training, by retrieval on dev and by sentence similarity: Figure 4 of Merkx & Frank (2019)."""
