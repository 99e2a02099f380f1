"""The two encoders, their losses, and the sentence encoder made of them."""
