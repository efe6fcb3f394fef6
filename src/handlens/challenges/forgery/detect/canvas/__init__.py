"""A figure made ready for matching: panels, marks that must not match, and the layers that tiers look at."""

from handlens.challenges.forgery.detect.canvas.canvas import Canvas, prepare

__all__ = ["Canvas", "prepare"]
