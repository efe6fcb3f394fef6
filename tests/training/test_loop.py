"""The moving average of weights: that of the textbook, whatever was interrupted."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from tiny_training import SCHEDULE, Tiny

from handlens.training.loop import Stepper, begin
from handlens.training.stages import Stage
from handlens.training.task import Task
from handlens.training.validation import Validation

STAGE = Stage("fold0", 0, (0, 1), (2,), 12)


def make_task():
    """Only what a step needs."""
    unused = dict.fromkeys(("challenge", "ids", "groups", "fields", "make_item", "infer", "decide"))
    unused |= dict.fromkeys(("answer", "score", "graph", "default"))
    return Task(
        **unused,
        metric="loss",
        make_network=lambda: Tiny(0.2),
        loss=lambda outputs, batch: (outputs - batch["image"].float().mean(3) / 255).square().mean(),
        measure=lambda outputs, batch: 0.0,
        is_pretrained=lambda name: name.startswith("first"),
    )


def take_steps(learner, steps, schedule=SCHEDULE, seen=lambda learner: None):
    stepper = Stepper(Fabric(accelerator="cpu"), make_task(), schedule, learner, STAGE)
    for step in steps:
        image = np.random.default_rng(step).integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
        stepper.take(step, {"image": image})
        seen(learner)


def assert_equal(one, other):
    assert list(one) == list(other)
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.99])
def test_the_average_is_that_of_the_textbook(decay):
    """Weights and the running statistics of norms, from the first weights on; counts are those of the network."""
    schedule = SCHEDULE.replace(ema_decay=decay)
    learner = begin(make_task(), schedule, 0, channels_last=True)
    expected = copy.deepcopy(learner.network.state_dict())
    states = []
    take_steps(learner, range(12), schedule, lambda now: states.append(copy.deepcopy(now.network.state_dict())))
    for step, state in enumerate(states):
        share = min(decay, (1 + step) / (10 + step))
        for name, value in state.items():
            expected[name] = value if not value.is_floating_point() else expected[name].lerp(value, 1 - share)
    assert_equal(learner.average, expected)
    assert set(learner.average) == set(learner.network.state_dict())
    same = all(torch.equal(value, learner.network.state_dict()[name]) for name, value in learner.average.items())
    assert same == (decay == 0)


def test_a_resumed_learner_goes_on_to_the_same_bits():
    whole = begin(make_task(), SCHEDULE, 0, channels_last=True)
    take_steps(whole, range(12))
    first = begin(make_task(), SCHEDULE, 0, channels_last=True)
    take_steps(first, range(5))
    state = copy.deepcopy(first.state())
    again = begin(make_task(), SCHEDULE.replace(seed=3), 0, channels_last=True)  # what it begins with does not matter
    Stepper(Fabric(accelerator="cpu"), make_task(), SCHEDULE, again, STAGE)
    again.restore(state, torch.device("cpu"))
    take_steps(again, range(5, 12))
    assert_equal(again.average, whole.average)
    assert_equal(again.network.state_dict(), whole.network.state_dict())


def test_the_average_does_not_learn():
    learner = begin(make_task(), SCHEDULE, 0, channels_last=True)
    before = copy.deepcopy(learner.average)
    learner.optimizer.zero_grad()
    learner.network(torch.zeros(1, 32, 32, 3, dtype=torch.uint8)).sum().backward()
    learner.optimizer.step()
    assert_equal(learner.average, before)


def test_validation_changes_nothing_and_is_of_what_is_held_out():
    asked = []

    def make_item(random, index):
        asked.append(index)
        return {"image": random.integers(0, 256, (32, 32, 3), dtype=np.uint8)}

    fabric = Fabric(accelerator="cpu")
    task = replace(make_task(), make_item=make_item)
    validation = Validation(fabric, task, SCHEDULE, STAGE, every=5)
    assert set(asked) == set(STAGE.held_out)
    assert [step + 1 for step in range(12) if validation.is_due(step)] == [5, 10, 12]
    plain, watched = (begin(make_task(), SCHEDULE, 0, channels_last=True) for _ in range(2))
    take_steps(plain, range(12))
    seen = []
    take_steps(watched, range(12), seen=lambda now: seen.append(validation.measure(now.averaged.module)))
    assert_equal(plain.state()["network"], watched.state()["network"])
    assert_equal(plain.average, watched.average)
    assert seen[0] == validation.measure(begin_again(1).averaged.module)
    assert seen[-1]["validation_loss"] != seen[0]["validation_loss"]
    last = Validation(fabric, task, SCHEDULE, replace(STAGE, held_out=()), every=5)
    assert not any(last.is_due(step) for step in range(12))  # the final network holds nothing out


def begin_again(steps):
    again = begin(make_task(), SCHEDULE, 0, channels_last=True)
    take_steps(again, range(steps))
    return again
