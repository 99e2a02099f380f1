"""Search pictures by a sentence, and captions by a picture: exact, in the terminal or on a local page."""
