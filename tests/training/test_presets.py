"""Presets by machine: fields that exist, changed by `--set`, and a network that takes steps of that size."""

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")

from handlens.challenges.cells import options as cells
from handlens.challenges.ink import options as ink
from handlens.challenges.lesions import options as lesions
from handlens.training.engine import split_fields
from handlens.training.options import chosen_fields

CHALLENGES = {
    "cells": (cells, cells.CellsSettings, cells.CellsTraining()),
    "ink": (ink, ink.InkSettings, ink.InkTraining()),
    "lesions": (lesions, lesions.LesionsSettings, lesions.LesionsTraining()),
}


@pytest.mark.parametrize("name", CHALLENGES)
def test_a_preset_changes_fields_that_exist_and_set_has_the_last_word(name):
    options, settings, start = CHALLENGES[name]
    plain = split_fields(start, options.SCHEDULE, chosen_fields(settings(), options.PRESETS))
    assert plain == (start, options.SCHEDULE)
    fields, schedule = split_fields(start, options.SCHEDULE, chosen_fields(settings(preset="gpu"), options.PRESETS))
    assert fields != start
    assert schedule.batch > options.SCHEDULE.batch
    own = settings(preset="gpu", set={"batch": "3"})
    assert split_fields(start, options.SCHEDULE, chosen_fields(own, options.PRESETS))[1].batch == 3


@pytest.mark.slow
def test_lesions_takes_a_step_with_the_network_of_a_gpu():
    import torch

    from handlens.challenges.lesions.network import PhotoClassifier, class_loss

    fields = split_fields(lesions.LesionsTraining(weights="scratch"), lesions.SCHEDULE, lesions.PRESETS["gpu"])[0]
    network = PhotoClassifier(
        fields.encoder, "scratch", classes=10, sites=7, frozen=fields.frozen_stages, still=True, dropout=0.0
    )
    image = torch.zeros((1, fields.size, fields.size, 3), dtype=torch.uint8)
    class_loss(network(image, torch.tensor([[50.0, 1, 7]])), torch.tensor([2]), smoothing=0.0).backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_cells_takes_a_step_with_the_network_of_a_gpu():
    import torch

    from handlens.challenges.cells.network import LightUNet
    from handlens.training.encoders import make_encoder
    from handlens.training.losses import mask_loss

    fields, schedule = split_fields(cells.CellsTraining(), cells.SCHEDULE, cells.PRESETS["gpu"])
    assert (fields.crop % 32, schedule.precision) == (0, "auto")
    network = LightUNet(make_encoder(fields.encoder, "scratch"))
    with torch.autocast("cpu", dtype=torch.bfloat16):  # as a GPU computes
        logits = network(torch.zeros((1, 64, 64, 3), dtype=torch.uint8))
    truth = torch.zeros(1, 64, 64)
    mask_loss(logits, truth, truth + 1, dice=fields.dice_weight).backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_ink_takes_a_step_with_the_network_of_a_gpu():
    import torch

    from handlens.challenges.ink.network import DepthNet
    from handlens.challenges.ink.training import window_of
    from handlens.training.losses import mask_loss

    fields = split_fields(ink.InkTraining(), ink.SCHEDULE, ink.PRESETS["gpu"])[0]
    layers = window_of(fields).layers
    network = DepthNet(layers, fields.width)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = network(torch.zeros((1, layers, 64, 64), dtype=torch.uint8))
    truth = torch.zeros(1, 16, 16)
    mask_loss(logits, truth, truth + 1, dice=fields.dice_weight).backward()
    assert all(parameter.grad is not None for parameter in network.parameters())
