"""A plan for tests that need one."""

from handlens.runstore.plan import Plan
from handlens.training.options import Schedule
from handlens.training.stages import Speed

SPEED = Speed(step=0.5, predict=2.0, channels_last=True, other_step=0.8)


def plan_of(**other):
    given = {
        "challenge": "cells",
        "metric": "Dice",
        "fields": {"crop": 64},
        "schedule": Schedule().plain(),
        "minutes": 10.0,
        "folds": 2,
        "devices": 1,
        "nodes": 1,
        "threads": 1,
        "precision": "32-true",
        "accelerator": "cpu",
        "ids": ("a", "b", "c"),
        "fold_of": (0, 1, 0),
        "steps": 5,
        "final_steps": 10,
        "speed": SPEED.plain(),
        "versions": {"torch": "2"},
    }
    return Plan(**{**given, **other})
