"""Masks without pixels: run lengths, their components, and metrics on them."""
