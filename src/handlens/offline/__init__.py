"""Solving where there is no network: bundles, notebooks, what they need at the contest, and entries run as there."""
