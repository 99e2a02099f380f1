"""Looking for pictures by a sentence, and for captions by a picture: exact, in the terminal or on a local page."""
