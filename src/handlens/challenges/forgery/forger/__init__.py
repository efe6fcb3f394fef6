"""The forger: makes figures up, forges them, and makes honest ones that look forged."""
