"""Bytes from outside: every header checked, every limit named."""
