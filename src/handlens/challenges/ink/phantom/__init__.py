"""A synthetic scroll fragment: papyrus, ink and scanner, each computed where and when it is looked at."""
