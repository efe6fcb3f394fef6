"""Mutated files: kinds, changes, and the campaign that reads them."""
