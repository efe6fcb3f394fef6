"""What a run wrote: fingerprint, lock, journal, checkpoints, finished marker."""
