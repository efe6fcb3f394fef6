"""A classifier of photographs and facts about the person, and the same as the lesions contest asks for it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, cast

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from handlens.errors import ModelError
from handlens.training.encoders import SCRATCH, SIZES, LiteEncoder, NormedConv, SameConv, make_encoder, read_weights
from handlens.training.networks import Prepare, set_memory_format
from handlens.training.task import Array

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

FEATURES = 1280
"""Channels of the last convolution of every EfficientNet-Lite."""

AGES = (0, 20, 40, 60, 75)
"""Ages at which a line in age may bend."""

MIDDLE_AGE = 55.0
"""Stands for an age that nobody knows."""

BRIGHTEST = 2.0
"""Pixels above it are of a picture whose white is 255; floats about 1 may overshoot a little."""


class Facts(nn.Module):
    """Age (0 unknown), sex (1 m, 0 f, -1 unknown) and site (1 to `sites`, -1 unknown) as (N, width) numbers.

    Age becomes hinges, sex and site one-hots, each with a place for unknown.
    """

    def __init__(self, sites: int) -> None:
        super().__init__()
        self.width = len(AGES) + 1 + 3 + sites + 1
        self.ages: Tensor
        self.sites: Tensor
        self.register_buffer("ages", torch.tensor(AGES, dtype=torch.float32), persistent=False)
        self.register_buffer("sites", torch.arange(1, sites + 1, dtype=torch.float32), persistent=False)

    def forward(self, demographics: Tensor) -> Tensor:
        age, sex, site = demographics[:, 0:1], demographics[:, 1:2], demographics[:, 2:3]
        known = age > 0
        years = torch.where(known, age, torch.full_like(age, MIDDLE_AGE))
        hinges = torch.relu(years - self.ages) / 20
        man, woman = (sex - 1).abs() < 0.5, sex.abs() < 0.5
        places = ((site - self.sites).abs() < 0.5).to(torch.float32)
        nowhere = 1 - places.sum(1, keepdim=True)
        flags = torch.cat([~known, man, woman, ~(man | woman)], 1).to(torch.float32)
        return torch.cat([hinges, flags, places, nowhere], 1)


class PhotoClassifier(nn.Module):
    """uint8 (N, H, W, 3) photographs and (N, 3) demographics to (N, classes) logits.

    `frozen` is how many of the encoder's first stages, the stem among them, stay as they are: no gradient, norms that
    do not move. With `still` no norm moves at all. An `adapted` one adds to its logits those of a second layer, as much
    as a gate finds the photograph to be of another source than the first. `offsets` and `temperature` are the decision:
    what is exported answers with softmax((logits + offsets) / temperature).
    """

    def __init__(
        self,
        encoder: str,
        weights: str,
        *,
        classes: int,
        sites: int,
        frozen: int,
        still: bool,
        dropout: float,
        adapted: bool = False,
    ) -> None:
        super().__init__()
        if encoder not in SIZES:
            raise ModelError(f"there is no encoder {encoder!r} for photographs; there are {', '.join(SIZES)}")
        self.encoder = cast(LiteEncoder, make_encoder(encoder, weights))
        self.prepare = Prepare(self.encoder.centre, self.encoder.spread)
        self.mix = NormedConv(SameConv(self.encoder.widths[-1], FEATURES, 1))
        if weights != SCRATCH:
            self.mix.load_state_dict(_mix_weights(read_weights(encoder, weights)))
        self.facts = Facts(sites)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(FEATURES + self.facts.width, classes)
        self.gate = nn.Linear(FEATURES + self.facts.width, 1) if adapted else None
        self.other = nn.Linear(FEATURES + self.facts.width, classes) if adapted else None
        self.offsets: Tensor
        self.temperature: Tensor
        self.register_buffer("offsets", torch.zeros(classes))
        self.register_buffer("temperature", torch.ones(1))
        self.still = still
        self.frozen_parts = _first_stages(self.encoder, frozen)
        for part in self.frozen_parts:
            part.requires_grad_(False)
        self.train()

    def train(self, mode: bool = True) -> PhotoClassifier:
        """Parts that are frozen stay in the state of answering."""
        super().train(mode)
        for part in self.frozen_parts:
            part.eval()
        if self.still:
            for module in self.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.eval()
        return self

    def forward(self, image: Tensor, demographics: Tensor) -> Tensor:
        return self.answer(self.prepare(image), demographics)

    def answer(self, prepared: Tensor, demographics: Tensor) -> Tensor:
        known = torch.cat([self.dropout(self.see(prepared)), self.facts(demographics)], 1)
        logits: Tensor = self.head(known)
        if self.gate is None or self.other is None:
            return logits
        corrected: Tensor = logits + torch.sigmoid(self.gate(known)) * self.other(known)
        return corrected

    def see(self, prepared: Tensor) -> Tensor:
        """(N, FEATURES) of a prepared photograph."""
        features = prepared
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen_parts):
            features = functional.relu6(self.encoder.stem(features))
            for block in self.encoder.blocks[: max(0, len(self.frozen_parts) - 1)]:
                features = block(features)
        for block in self.encoder.blocks[max(0, len(self.frozen_parts) - 1) :]:
            features = block(features)
        return functional.relu6(self.mix(features)).mean((2, 3))

    def settle(self, offsets: Sequence[float], temperature: float) -> None:
        """Take a decision."""
        self.offsets.copy_(torch.tensor(offsets))
        self.temperature.fill_(temperature)

    @torch.no_grad()
    def set_head(self, weights: Array, bias: Array) -> None:
        """First weights (FEATURES + facts, classes) of the head."""
        _set_linear(self.head, weights, bias)

    @torch.no_grad()
    def set_adaptation(self, gate: tuple[Array, Array], other: tuple[Array, Array]) -> None:
        """Weights and bias of the gate and of the second layer; refused by a network that has none."""
        if self.gate is None or self.other is None:
            raise ValueError("this network is not adapted")
        _set_linear(self.gate, *gate)
        _set_linear(self.other, *other)


def _set_linear(layer: nn.Linear, weights: Array, bias: Array) -> None:
    layer.weight.copy_(torch.from_numpy(np.ascontiguousarray(weights.T, np.float32)))
    layer.bias.copy_(torch.from_numpy(np.asarray(bias, np.float32)))


class Shrink(nn.Module):
    """(N, 3, 512, 512) floats from 0 to 1, or to 255, to pixels from 0 to 255 at the network's own size.

    Whole halves are means of 2 x 2 pixels, the rest is linear: nothing is lost between pixels, and little time.
    """

    def __init__(self, side: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.pool = 1
        while side // (2 * self.pool) >= size and side % (2 * self.pool) == 0:
            self.pool *= 2
        self.left = side // self.pool

    def forward(self, image: Tensor) -> Tensor:
        small = functional.avg_pool2d(image, self.pool) if self.pool > 1 else image
        if self.left != self.size:
            small = functional.interpolate(small, (self.size, self.size), mode="bilinear", align_corners=False)
        top = small.amax((1, 2, 3), keepdim=True)
        return small * torch.where(top > BRIGHTEST, torch.ones_like(top), torch.full_like(top, 255.0))


class Contest(nn.Module):
    """The network as the contest asks for it: photograph and demographics to probabilities."""

    def __init__(self, network: nn.Module, side: int, size: int) -> None:
        super().__init__()
        self.network = cast(PhotoClassifier, network)
        self.shrink = Shrink(side, size)

    def forward(self, image: Tensor, demographics: Tensor) -> Tensor:
        network = self.network
        prepared = (self.shrink(image) - network.prepare.centre) / network.prepare.spread
        logits = network.answer(prepared, demographics)
        return torch.softmax((logits + network.offsets) / network.temperature, 1)


def features_of(network: nn.Module, pictures: Sequence[Bytes], *, size: int, batch: int = 16) -> Iterator[Floats]:
    """(FEATURES,) of each photograph, before the facts are put beside them.

    Photographs are brought to the network's size at once, and norms are made part of the convolutions before them:
    that takes half the time of feeding them as the contest does, and all of it comes before the first step.
    """
    classifier = _without_norms(cast(PhotoClassifier, network).eval())
    set_memory_format(classifier, channels_last=True)
    for start in range(0, len(pictures), batch):
        some = np.stack([_resized(picture, size) for picture in pictures[start : start + batch]])
        with torch.inference_mode():
            found: Floats = classifier.see(classifier.prepare(_on(classifier, some))).cpu().numpy()
        yield from found


def _resized(picture: Bytes, size: int) -> Bytes:
    return np.asarray(cv2.resize(picture, (size, size), interpolation=cv2.INTER_AREA), np.uint8)


def _without_norms(network: PhotoClassifier) -> PhotoClassifier:
    """The same answers, but for rounding, of a network that is not trained any more."""
    fused = copy.deepcopy(network)
    for part in list(fused.modules()):
        if isinstance(part, nn.Sequential) and len(part) == 2 and isinstance(part[0], nn.Conv2d):
            part[0] = fuse_conv_bn_eval(part[0], cast(nn.BatchNorm2d, part[1]))
            part[1] = nn.Identity()
    return fused


def facts_of(demographics: Floats, *, sites: int) -> Floats:
    """The facts as the network sees them."""
    facts: Floats = Facts(sites)(torch.from_numpy(demographics)).numpy()
    return facts


def class_loss(logits: Tensor, classes: Tensor, *, smoothing: float) -> Tensor:
    """Cross-entropy; `smoothing` is the share of certainty that is spread over all classes."""
    return functional.cross_entropy(logits.float(), classes, label_smoothing=smoothing)


def share_right(logits: Tensor, classes: Tensor) -> float:
    return float((logits.argmax(1) == classes).float().mean())


def _on(classifier: PhotoClassifier, values: Array) -> Tensor:
    return torch.from_numpy(values).to(classifier.head.weight.device)


def _first_stages(encoder: LiteEncoder, stages: int) -> list[nn.Module]:
    """The stem and the blocks of the first stages; a stage ends where a resolution does."""
    if not 0 <= stages <= len(encoder.taps):
        raise ModelError(f"frozen is {stages}; expected 0 to {len(encoder.taps)}")
    if not stages:
        return []
    return [encoder.stem, *encoder.blocks[: encoder.taps[stages - 1] + 1]]


def _mix_weights(published: dict[str, Any]) -> dict[str, Tensor]:
    """The last convolution of the published network, under our names."""
    tensors = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    theirs = {"0.weight": "_conv_head.weight", **{f"1.{name}": f"_bn1.{name}" for name in tensors}}
    return {ours: published[name] for ours, name in theirs.items() if name in published}
