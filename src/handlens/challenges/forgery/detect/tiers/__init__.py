"""Where candidates come from: each tier finds one kind of copy and hands on matches, most of them honest."""
