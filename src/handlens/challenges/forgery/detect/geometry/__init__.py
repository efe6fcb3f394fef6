"""Transforms and regions: sampling, correlation, alignment, outlines, and how far a copied region reaches."""
