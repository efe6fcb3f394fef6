"""The features of a match, one table: what each is made from, its sign, and the tiers that have it.

Correlations become Fisher's z, in which equal steps are equally unlikely; counts become logarithms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from handlens.challenges.forgery.detect.findings import Match, TierName
from handlens.challenges.forgery.detect.geometry.correlation import fisher

Evidence = Mapping[str, float]

EVIDENCE = (
    *("correlation", "detail", "denoised", "grain", "band_pass", "residual_noise"),
    *("detail_autocorrelation", "denoised_autocorrelation", "grain_autocorrelation", "band_pass_autocorrelation"),
    *("worst_quadrant", "flat_grain", "deformation", "stored_contrast", "solidity", "pixels", "inliers"),
    *("second_best", "typical_significance", "peers", "candidates", "margin", "drift", "peak_weight"),
    *("worst_quadrant_denoised", "grain_deviation", "seam", "seam_everywhere", "other_seam", "usual_seam"),
    *("sharpest_seam", "seam_halo", "other_halo", "gain", "rim_error", "outside_error"),
    *("block_edges", "difference", "detail_contrast"),
)
"""Evidence that features are made from; what a tier does not measure counts as 0."""

STORED_CONTRAST = (0.3, 4.0)
"""Grey levels of the file that pixels spread over, between which it matters how many. By hand: below, JPEG has left
nothing; above, every photograph is alike in it."""

LEAST_LEVEL = 0.25
"""Grey levels of the file, what rounding leaves, added before logarithms. Rule."""

NO_DEFORMATION = 0.05
"""Pixels of deformation that no alignment goes below; keeps the logarithm finite. By hand."""

FEWEST_PIXELS = 4.0
"""Fewest pixels that are counted: Fisher's z has a spread of 1 / sqrt(n - 3). Rule."""

LEAST_CORRELATED, MOST_CORRELATED = 1e-3, 0.999
"""Autocorrelations are clipped to this, so that their logarithm stays finite. Rule."""


@dataclass(frozen=True, slots=True)
class Feature:
    """A number that the verifier looks at.

    `key` is its name in decision files, which outlive names in code. `sign` is 1 where more of it makes a copy
    likelier and -1 where it makes one less likely: a fit must not learn the contrary from a few figures. 0 is for
    those that do either, depending on the rest: trees look at them, curves do not.
    """

    name: str
    key: str
    transform: Callable[[Evidence], float]
    sign: int = 1
    tiers: tuple[TierName, ...] = tuple(TierName)


def significance(evidence: Evidence) -> float:
    """How far detail, grain, and both as a blur leaves them, are from chance: a sum of standard deviations."""
    return sum(_significance_of(evidence, name) for name in ("detail", "grain", "denoised", "band_pass"))


def _significance_of(evidence: Evidence, name: str) -> float:
    """Fisher's z of a correlation times the root of the effective sample size.

    Neighbouring pixels are correlated: blurred noise whose neighbours correlate by r has one independent sample for
    every -pi / log r pixels.
    """
    pixels = max(evidence["pixels"], FEWEST_PIXELS)
    neighbours = evidence.get(f"{name}_autocorrelation", 0.0)
    samples = pixels * min(1.0, -float(np.log(np.clip(neighbours, LEAST_CORRELATED, MOST_CORRELATED))) / np.pi)
    return max(0.0, fisher(evidence[name])) * float(np.sqrt(max(1.0, samples - 3)))


def _fisher_of(name: str) -> Callable[[Evidence], float]:
    return lambda seen: fisher(seen[name])


def _plain(name: str) -> Callable[[Evidence], float]:
    return lambda seen: seen[name]


def _log_count(name: str) -> Callable[[Evidence], float]:
    return lambda seen: float(np.log1p(seen[name]))


def _log_significance(name: str) -> Callable[[Evidence], float]:
    return lambda seen: float(np.log1p(_significance_of(seen, name)))


def _deformation(seen: Evidence) -> float:
    return float(np.log(NO_DEFORMATION + seen["deformation"]))


def _stored_contrast(seen: Evidence) -> float:
    return float(np.log(np.clip(seen["stored_contrast"], *STORED_CONTRAST)))


def _log_levels(name: str) -> Callable[[Evidence], float]:
    return lambda seen: float(np.log(LEAST_LEVEL + seen[name]))


def _detail_kept(seen: Evidence) -> float:
    """How much more detail there is than source and copy differ by."""
    return float(np.log((LEAST_LEVEL + seen["detail_contrast"]) / (LEAST_LEVEL + seen["difference"])))


def _strength(seen: Evidence) -> float:
    """As if every pixel spoke for itself."""
    return float(np.log1p(max(0.0, fisher(seen["detail"])) * np.sqrt(max(seen["pixels"], FEWEST_PIXELS))))


def _seam_above(name: str) -> Callable[[Evidence], float]:
    """How much sharper the sharper outline is."""
    return lambda seen: seen["seam"] - seen[name]


def _relative_significance(seen: Evidence) -> float:
    """Against that of most other pairs of the figure."""
    return float(np.log1p(significance(seen)) - np.log1p(max(0.0, seen["typical_significance"])))


def _second_best_margin(seen: Evidence) -> float:
    """How much more alike the grain is than at the best other place around the copy."""
    return fisher(seen["grain"]) - fisher(seen["second_best"])


FEATURES: tuple[Feature, ...] = (
    Feature("correlation", "likeness", _fisher_of("correlation")),
    Feature("detail", "detail", _fisher_of("detail")),
    Feature("denoised", "calm", _fisher_of("denoised")),
    Feature("grain", "grain", _fisher_of("grain")),
    Feature("band_pass", "weave", _fisher_of("band_pass")),
    Feature("residual_noise", "noise", _fisher_of("residual_noise")),
    Feature("worst_quadrant", "even", _plain("worst_quadrant")),
    Feature("flat_grain", "quiet", _fisher_of("flat_grain")),
    Feature("deformation", "bend", _deformation, sign=-1),
    Feature("stored_contrast", "depth", _stored_contrast),
    Feature("solidity", "solid", _plain("solidity")),
    Feature("strength", "strength", _strength),
    Feature("detail_significance", "proof", _log_significance("detail")),
    Feature("denoised_significance", "calm proof", _log_significance("denoised")),
    Feature("grain_significance", "grain proof", _log_significance("grain")),
    Feature("band_pass_significance", "weave proof", _log_significance("band_pass")),
    Feature("residual_noise_significance", "noise proof", _log_significance("residual_noise")),
    Feature("second_best_margin", "advantage", _second_best_margin),
    Feature("candidates", "choices", _log_count("candidates"), sign=-1),
    Feature("drift", "drift", _log_count("drift"), sign=-1),
    Feature("relative_significance", "lead", _relative_significance, tiers=(TierName.OBJECTS,)),
    Feature("peers", "peers", _log_count("peers"), sign=-1, tiers=(TierName.OBJECTS,)),
    Feature("margin", "standing", _plain("margin"), tiers=(TierName.OBJECTS,)),
    Feature("inliers", "inliers", _log_count("inliers"), tiers=(TierName.KEYPOINTS, TierName.BLOTS)),
    Feature("peak_weight", "weight", _log_count("peak_weight"), tiers=(TierName.SHIFTS,)),
    *(
        Feature(name, name.replace("_", " "), transform, sign=0, tiers=(TierName.OBJECTS,))
        for name, transform in (
            ("seam", _plain("seam")),
            ("seam_everywhere", _plain("seam_everywhere")),
            ("other_seam", _plain("other_seam")),
            ("seam_above_other", _seam_above("other_seam")),
            ("seam_above_usual", _seam_above("usual_seam")),
            ("seam_above_sharpest", _seam_above("sharpest_seam")),
            ("seam_halo", _plain("seam_halo")),
            ("other_halo", _plain("other_halo")),
            ("gain", _plain("gain")),
            ("rim_error", _plain("rim_error")),
            ("outside_error", _plain("outside_error")),
            ("worst_quadrant_denoised", _plain("worst_quadrant_denoised")),
            ("grain_deviation", _plain("grain_deviation")),
            ("pixels", _log_count("pixels")),
            ("block_edges", _plain("block_edges")),
            ("difference", _log_levels("difference")),
            ("detail_contrast", _log_levels("detail_contrast")),
            ("detail_kept", _detail_kept),
        )
    ),
)
"""Every feature; to add one, measure its evidence, name it in EVIDENCE, and put it here."""

BY_NAME: Mapping[str, Feature] = {feature.name: feature for feature in FEATURES}
BY_KEY: Mapping[str, Feature] = {feature.key: feature for feature in FEATURES}


def describe(match: Match) -> dict[str, float]:
    """All features of a match by name."""
    seen = dict.fromkeys(EVIDENCE, 0.0) | dict(match.evidence)
    return {feature.name: feature.transform(seen) for feature in FEATURES}
