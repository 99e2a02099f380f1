"""How an encoder of grounded spaces is judged."""
