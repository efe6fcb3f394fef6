"""The classifier of photographs: facts as numbers, what is frozen stays, the file answers as torch does."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")

import torch

from handlens.challenges.lesions.network import Contest, Facts, PhotoClassifier, Shrink, features_of
from handlens.errors import ModelError


def make(**other):
    torch.manual_seed(0)
    given = {"classes": 4, "sites": 7, "frozen": 2, "still": True, "dropout": 0.0, **other}
    return PhotoClassifier("lite0", "scratch", **given)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def logits_of(network, image, facts, size):
    """What a network says about one (3, side, side) photograph that is reduced as in the contest."""
    with torch.inference_mode():
        pixels = Shrink(image.shape[1], size)(torch.from_numpy(image)[None])
        prepared = (pixels - network.prepare.centre) / network.prepare.spread
        return network.answer(prepared, torch.from_numpy(facts)[None])[0].numpy()


def test_unknown_facts_have_places_of_their_own():
    facts = Facts(7)
    rows = facts(torch.tensor([[50.0, 1, 3], [0, -1, -1], [50, 0, 7], [float("nan"), float("nan"), float("nan")]]))
    assert rows.shape == (4, facts.width)
    hinges, unknown_age, sex, site = rows[:, :5], rows[:, 5], rows[:, 6:9], rows[:, 9:]
    assert hinges[0].tolist() == [2.5, 1.5, 0.5, 0.0, 0.0]
    assert unknown_age.tolist() == [0, 1, 0, 1]
    assert sex.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1]]
    assert [row.nonzero().ravel().tolist() for row in site] == [[2], [7], [6], [7]]
    assert torch.equal(rows[1], rows[3])


def step(network):
    """One step of training; names of what moved."""
    before = {name: value.clone() for name, value in network.state_dict().items()}
    optimizer = torch.optim.AdamW([each for each in network.parameters() if each.requires_grad], 0.01)
    image = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), dtype=np.uint8))
    logits = network.train()(image, torch.tensor([[50.0, 1, 3]] * 4))
    torch.nn.functional.cross_entropy(logits, torch.arange(4)).backward()
    optimizer.step()
    return {name for name, value in network.state_dict().items() if not torch.equal(value, before[name])}


@pytest.mark.parametrize(("frozen", "still"), [(0, False), (0, True), (2, False), (2, True), (5, True)])
def test_what_is_frozen_does_not_move(frozen, still):
    network = make(frozen=frozen, still=still)
    moved = step(network)
    last = network.encoder.taps[frozen - 1] if frozen else -1
    first_blocks = {name for name in moved if name.startswith("encoder.blocks.") and int(name.split(".")[2]) <= last}
    assert not first_blocks
    assert any(name.startswith("encoder.stem") for name in moved) == (frozen == 0)
    assert any(name.startswith("encoder.blocks.") for name in moved) == (frozen < 5)
    assert {"mix.0.weight", "head.weight"} <= moved
    assert any("running_mean" in name for name in moved) == (not still)


def test_too_many_stages_are_refused():
    with pytest.raises(ModelError, match="frozen is 6; expected 0 to 5"):
        make(frozen=6)
    with pytest.raises(ModelError, match="no encoder 'timm:x' for photographs"):
        PhotoClassifier("timm:x", "scratch", classes=2, sites=7, frozen=0, still=True, dropout=0.0)


@pytest.mark.parametrize("size", [32, 96, 128, 160, 224, 256, 512])
def test_pictures_are_reduced_and_their_range_does_not_matter(size):
    image = torch.rand(2, 3, 512, 512) * 0.5 + 0.25
    small = Shrink(512, size)(image)
    assert small.shape == (2, 3, size, size)
    assert torch.allclose(small, Shrink(512, size)(image * 255), atol=1e-3)
    assert abs(float(small.mean()) - 255 * float(image.mean())) < 0.5
    checks = torch.ones(1, 3, 512, 512)
    checks[:, :, ::2] = 0  # finer than the small picture: must become grey, not stripes
    fine = Shrink(512, size)(checks)
    assert size > 256 or (float(fine.min()) > 120 and float(fine.max()) < 135)


def test_the_contest_is_answered_with_the_decision():
    network = make().eval()
    network.settle([0.5, 0.0, -1.0, 0.5], 2.0)
    image = np.random.default_rng(0).random((3, 512, 512), np.float32)
    facts = np.array([40, 0, 7], np.float32)
    logits = logits_of(network, image, facts, size=64)
    expected = torch.softmax((torch.from_numpy(logits) + torch.tensor([0.5, 0, -1, 0.5])) / 2, 0)
    with torch.inference_mode():
        said = Contest(network, 512, 64)(torch.from_numpy(image)[None], torch.from_numpy(facts)[None])
    assert torch.allclose(said[0], expected, atol=1e-5)


def test_the_head_is_what_it_is_told_to_be():
    network = make().eval()
    for norm in (each for each in network.modules() if isinstance(each, torch.nn.BatchNorm2d)):  # as if it had learned
        norm.bias.data.normal_(0, 0.2)
        norm.running_mean.normal_(0, 0.2)
    draws = [np.random.default_rng(seed).integers(0, 256, (32, 32, 3), np.uint8) for seed in range(3)]
    pictures = [draw.repeat(2, 0).repeat(2, 1) for draw in draws]  # of which a half has the very same pixels
    seen = np.stack(list(features_of(network, pictures, size=32, batch=2)))
    assert seen.shape == (3, 1280)
    weights = np.random.default_rng(0).normal(size=(1280 + network.facts.width, 4))
    network.set_head(weights, np.array([1.0, 2, 3, 4]))
    facts = np.array([40, 0, 7], np.float32)
    beside = network.facts(torch.from_numpy(facts)[None]).numpy()[0]
    meant = np.concatenate([seen[1], beside]) @ weights + np.array([1, 2, 3, 4])
    image = pictures[1].transpose(2, 0, 1).astype(np.float32) / 255
    assert np.abs(logits_of(network, image, facts, size=32) - meant).max() < 1e-3
