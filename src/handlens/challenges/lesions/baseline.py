"""How a lesion is named without a network: colour, outline and texture of the photograph, age, sex and site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.lesions.facts import with_facts
from handlens.challenges.lesions.logistic import minimise, softmax
from handlens.challenges.lesions.taxonomy import LOCATIONS, TAXONOMIES
from handlens.errors import ModelError
from handlens.io.images import read_rgb
from handlens.splits import fold_of
from handlens.types import ALONE, Case, Prediction, Truth, Work

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Pixels = npt.NDArray[np.float32]
"""Lab colours, or one number for each pixel."""

PERCENTILES = (5, 25, 50, 75, 95)
LIGHTNESS_BINS = np.linspace(0, 100, 11)
RED_BINS = np.linspace(-10, 50, 11)
YELLOW_BINS = np.linspace(-30, 50, 11)
"""Where skin and lesions lie in Lab; what lies outside counts to the outermost bin."""


@dataclass(frozen=True, slots=True)
class PhotoStatistics:
    """Logistic regression on measured features, five folds apart by lesion.

    side        photographs are measured at side x side pixels: enough for colours, outline and coarse texture
    folds       a training case is predicted by the one fold that did not see its lesion
    penalty     weight of the squared coefficients against the mean loss per case; flat from 0.005 to 0.03
    balance     power of the inverse class frequency in the loss: 0 favours accuracy, 1 the rare classes' F1; the
                score, half of each, is best between 0.2 and 0.4
    floor       probability shared by all classes, so that one never seen in training is unlikely, not impossible
    rounds      most steps of the optimiser; it is nearly always done before
    seed        which lesions go into which fold
    """

    side: int = 64
    folds: int = 5
    penalty: float = 1e-2
    balance: float = 0.3
    floor: float = 1e-3
    rounds: int = 300
    seed: int = 0

    def fit(self, train: Truth[str] | None, taxonomy: str, facts: Mapping[str, Any]) -> PhotoStatisticsPredictor:
        """Learn from labelled photographs; `facts` stand in where a case's own are unknown."""
        if train is None or not train.cases:
            raise ModelError(
                "there are no labelled photographs to learn from: put them and their labels.csv under train/"
            )
        classes = TAXONOMIES[taxonomy].classes
        labels = np.array([_class_number(train.read(case), case, classes) for case in train.cases])
        groups = [_group(case) for case in train.cases]
        folds = min(self.folds, len(set(groups)))
        numbers = fold_of(groups, folds=folds, seed=self.seed, strata=[classes[label] for label in labels])
        measured: dict[Path, Floats] = {}
        features = np.stack([_features(case, self.side, measured) for case in train.cases])
        held = np.array(numbers)
        apart = [held != fold for fold in range(folds)]
        models = tuple(self._fit(features[seen], labels[seen], len(classes)) for seen in apart)
        return PhotoStatisticsPredictor(models, dict(zip(groups, numbers, strict=True)), self.side, measured, facts)

    def _fit(self, features: Floats, labels: npt.NDArray[np.int64], count: int) -> _Logistic:
        """Coefficients of the classes that occur; without any case every one of `count` is as likely as the next."""
        if not len(labels):
            return _Logistic(np.zeros(1), np.ones(1), np.zeros((2, count)), np.arange(count), count, self.floor)
        present, codes = np.unique(labels, return_inverse=True)
        centre, scale = features.mean(axis=0), features.std(axis=0)
        scale = np.where(scale > 1e-6, scale, 1.0)
        weights = (len(codes) / np.bincount(codes))[codes] ** self.balance
        table = _standardise(features, centre, scale)
        coefficients = minimise(table, codes, weights / weights.sum(), self.penalty, self.rounds)
        return _Logistic(centre, scale, coefficients, present, count, self.floor)


@dataclass(frozen=True, slots=True)
class _Logistic:
    """A fitted multinomial logistic regression; `present` are the classes it knows, of `count`."""

    centre: Floats
    scale: Floats
    coefficients: Floats
    present: npt.NDArray[np.int64]
    count: int
    floor: float

    def __call__(self, features: Floats) -> Floats:
        chances = np.full(self.count, self.floor / self.count)
        row = _standardise(features[None, : len(self.centre)], self.centre, self.scale)
        chances[self.present] += (1 - self.floor) * softmax(row @ self.coefficients)[0]
        chances /= chances.sum()
        return chances


@dataclass(frozen=True, slots=True)
class PhotoStatisticsPredictor:
    """A case of a known group is predicted by the fold's model that did not see it, others by the mean of all."""

    models: Sequence[_Logistic]
    fold_of_group: Mapping[str, int]
    side: int
    measured: dict[Path, Floats] = field(repr=False)
    facts: Mapping[str, Any] = field(default_factory=dict)
    model: None = None

    def decode(self, case: Case, /) -> AbstractContextManager[Case]:
        return nullcontext(case)

    def predict(self, case: Case, work: Work = ALONE, /) -> Prediction[Floats]:
        return Prediction(self._probabilities(replace(case, details=with_facts(case.details, self.facts))))

    def __call__(self, value: Any, /, **facts: Any) -> Floats:
        """Probabilities for the path of a photograph."""
        return self._probabilities(Case(Path(value).name, Path(value), details=with_facts(facts, self.facts)))

    def _probabilities(self, case: Case) -> Floats:
        features = _features(case, self.side, self.measured)
        fold = self.fold_of_group.get(_group(case))
        if fold is not None:
            return self.models[fold](features)
        mean = np.mean([model(features) for model in self.models], axis=0)
        return np.asarray(mean / mean.sum(), np.float64)


def _group(case: Case) -> str:
    return case.group or case.id


def _class_number(label: str, case: Case, classes: tuple[str, ...]) -> int:
    if label not in classes:
        raise ModelError(f"{case.id}: the label {label!r} is not one of {', '.join(classes)}")
    return classes.index(label)


def _features(case: Case, side: int, measured: dict[Path, Floats]) -> Floats:
    """All that is measured about a case; a photograph is read once."""
    if case.path not in measured:
        measured[case.path] = photograph_features(read_rgb(case.path), side=side)
    return np.concatenate([measured[case.path], demographic_features(case.details)])


def demographic_features(details: Mapping[str, Any]) -> Floats:
    """Age as hinges (risk is not straight in age), sex and site as one-hots, each with a place for unknown."""
    age, gender, location = (details.get(name) for name in ("age", "gender", "location"))
    years = 55.0 if age is None else float(age)
    hinges = [max(0.0, years - start) / 20 for start in (0, 20, 40, 60, 75)]
    sexes = [gender == "m", gender == "f", gender not in ("m", "f")]
    sites = [location == number + 1 for number in range(len(LOCATIONS))]
    return np.array([*hinges, age is None, *sexes, *sites, not any(sites)], np.float64)


def photograph_features(picture: npt.NDArray[np.uint8], *, side: int) -> Floats:
    """Colours by zone, the lesion's outline, and texture of an RGB photograph; finite for any picture."""
    small = cv2.resize(picture, (side, side), interpolation=cv2.INTER_AREA)
    lab: Pixels = np.asarray(cv2.cvtColor(small.astype(np.float32) / 255, cv2.COLOR_RGB2LAB), np.float32)
    zones = _zones(side)
    lesion, contrast = _lesion(lab, zones[-1])
    parts = [
        *(_colours(lab[zone]) for zone in zones),
        lab[zones[0]].mean(axis=0) - lab[zones[-1]].mean(axis=0),
        _histograms(lab[zones[0]]),
        _histograms(lab.reshape(-1, 3)),
        _colours(lab[lesion]),
        lab[lesion].mean(axis=0) - np.median(lab[~lesion], axis=0),
        _outline(lesion, contrast),
        _texture(lab, lesion, zones),
    ]
    return np.concatenate(parts).astype(np.float64)


def _zones(side: int) -> list[Mask]:
    """Centre disc, ring around it, and the rest, as masks."""
    axis = (np.arange(side) + 0.5) / side * 2 - 1
    radius = np.hypot(axis[:, None], axis[None, :])
    return [radius < 0.35, (radius >= 0.35) & (radius < 0.7), radius >= 0.7]


def _colours(pixels: Pixels) -> Pixels:
    """Mean, deviation and percentiles of each Lab channel of (n, 3) pixels."""
    percentiles = np.percentile(pixels, PERCENTILES, axis=0).ravel()
    return np.concatenate([pixels.mean(axis=0), pixels.std(axis=0), percentiles])


def _histograms(pixels: Pixels) -> Pixels:
    """Square roots of the shares of each channel's bins: small shares of odd colours count."""
    shares = [
        np.histogram(np.clip(pixels[:, channel], bins[0], bins[-1]), bins)[0] / len(pixels)
        for channel, bins in enumerate((LIGHTNESS_BINS, RED_BINS, YELLOW_BINS))
    ]
    return np.sqrt(np.concatenate(shares))


def _lesion(lab: Pixels, border: Mask) -> tuple[Mask, Pixels]:
    """The spot that differs most from the skin at the border, near the centre; and each pixel's difference."""
    smooth = cv2.GaussianBlur(lab, (0, 0), lab.shape[0] / 48)
    contrast = np.asarray(np.linalg.norm(smooth - np.median(smooth[border], axis=0), axis=2), np.float32)
    nearness = 1 - 0.7 * _distance(lab.shape[0])
    weighted = np.clip(contrast * nearness * 4, 0, 255).astype(np.uint8)
    _, spots = cv2.threshold(weighted, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    _, numbers, stats, _ = cv2.connectedComponentsWithStats(spots)
    strength = np.bincount(numbers.ravel(), (contrast * nearness).ravel(), minlength=len(stats))
    strength[0] = 0
    lesion: Mask = numbers == int(strength.argmax())
    if len(stats) < 2 or lesion.all():
        lesion = _zones(lab.shape[0])[0]
    return lesion, contrast


def _distance(side: int) -> Floats:
    """Distance from the centre, 0 to 1 in the corners."""
    axis = np.abs((np.arange(side) + 0.5) / side * 2 - 1)
    return np.asarray(np.hypot(axis[:, None], axis[None, :]) / np.sqrt(2), np.float64)


def _outline(lesion: Mask, contrast: Pixels) -> Floats:
    """Size, place, roundness, elongation, solidity, contrast and sharpness of the edge."""
    contours, _ = cv2.findContours(lesion.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    contour = max(contours, key=len)
    area, length = float(lesion.sum()), cv2.arcLength(contour, True) + 1
    hull = cv2.contourArea(cv2.convexHull(contour)) + 1
    rows, columns = np.nonzero(lesion)
    spread = np.linalg.eigvalsh(np.cov(np.stack([rows, columns]), ddof=0) + np.eye(2) / 12)
    side = lesion.shape[0]
    edge = lesion ^ cv2.erode(lesion.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)
    slope = np.hypot(*np.gradient(contrast))
    return np.array(
        [
            np.log(area / side**2),
            np.hypot(rows.mean() / side - 0.5, columns.mean() / side - 0.5),
            np.log(length**2 / (4 * np.pi * area)),
            np.log(spread[1] / spread[0]),
            cv2.contourArea(contour) / hull,
            np.log1p(contrast[lesion].mean()),
            np.log1p(contrast[lesion].std()),
            np.log1p(slope[edge].mean()),
            slope[edge].std() / (slope[edge].mean() + 1),
            lesion[0].mean() + lesion[-1].mean() + lesion[:, 0].mean() + lesion[:, -1].mean(),
        ]
    )


def _texture(lab: Pixels, lesion: Mask, zones: list[Mask]) -> Pixels:
    """Log energy of details of three sizes, per channel, in the lesion, the centre and the border."""
    values = []
    for scale in (1.0, 2.0, 4.0):
        detail = np.abs(cv2.GaussianBlur(lab, (0, 0), scale) - cv2.GaussianBlur(lab, (0, 0), scale * 1.6))
        values += [np.log(detail[zone].mean(axis=0) + 0.05) for zone in (lesion, zones[0], zones[-1])]
    return np.concatenate(values)


def _standardise(features: Floats, centre: Floats, scale: Floats) -> Floats:
    """Features in deviations, at most five (an odd picture must not decide alone), and a column of ones."""
    table = np.clip((features - centre) / scale, -5, 5)
    return np.hstack([table, np.ones((len(table), 1))])
