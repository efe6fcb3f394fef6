"""The training engine: the only place that imports torch. Import its modules where they are used, not before."""
