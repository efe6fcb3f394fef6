"""A figure made ready for matching: panels, marks that must not match, and the layers that tiers look at."""
