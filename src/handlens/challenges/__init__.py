"""The built-in challenges, one folder each."""
