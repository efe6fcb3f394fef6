"""The loss of masks."""

import pytest
import torch

from handlens.training.losses import hard_dice, mask_loss
from handlens.training.norm import SharedBatchNorm


def batch(count=4):
    torch.manual_seed(0)
    truth = (torch.rand(count, 16, 16) > 0.7).to(torch.uint8)
    return torch.randn(count, 16, 16), truth, 1 + torch.rand(count, 16, 16)


def test_right_is_cheaper_than_unsure_than_wrong():
    _, truth, weight = batch()
    sure = 20 * (truth.float() * 2 - 1)
    losses = [float(mask_loss(logits, truth, weight, dice=1.0)) for logits in (sure, sure * 0, -sure)]
    assert losses[0] < 0.001
    assert losses[0] < losses[1] < losses[2]


def test_the_mean_of_two_halves_is_the_whole():
    """So two processes that share a batch learn what one learns."""
    logits, truth, weight = batch()
    whole = mask_loss(logits, truth, weight, dice=0.7)
    halves = [mask_loss(logits[part], truth[part], weight[part], dice=0.7) for part in (slice(2), slice(2, 4))]
    assert float(whole) == pytest.approx(float(sum(halves)) / 2, rel=1e-6)


def test_weights_and_overlap_count():
    logits, truth, weight = batch()
    heavy = torch.where(truth > 0, 10.0, 1.0)
    assert mask_loss(logits - 3, truth, heavy, dice=0) > mask_loss(logits - 3, truth, weight * 0 + 1, dice=0)
    assert mask_loss(logits, truth, weight, dice=1) > mask_loss(logits, truth, weight, dice=0)


def test_nothing_to_find_and_nothing_said():
    empty = torch.zeros(2, 16, 16)
    assert float(mask_loss(empty - 20, empty, empty + 1, dice=1.0)) < 0.01
    assert hard_dice(empty - 1, empty) == 1.0
    assert hard_dice(empty + 1, empty) == 0.0
    logits, truth, _ = batch()
    assert hard_dice(truth.float() * 2 - 1, truth) == 1.0
    assert 0 < hard_dice(logits, truth) < 1


def test_in_one_process_the_norm_is_torch_s_own():
    shared, plain = SharedBatchNorm(3), torch.nn.BatchNorm2d(3)
    image = torch.randn(4, 3, 8, 8)
    for training in (True, False):
        assert torch.equal(shared.train(training)(image), plain.train(training)(image))
    assert torch.equal(shared.running_var, plain.running_var)
