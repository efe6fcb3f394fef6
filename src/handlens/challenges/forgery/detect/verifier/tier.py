"""What holds for the matches of a tier: its features, its vetoes, and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from handlens.challenges.forgery.detect.findings import TierName
from handlens.challenges.forgery.detect.verifier.features import FEATURES, Feature


@dataclass(frozen=True, slots=True)
class Tier:
    """One kind of candidates."""

    name: TierName

    worst_quadrant: float = 0.0
    """Veto: least correlation of the least alike quarter, as a share of that of the whole. A copy is one everywhere."""
    worst_quadrant_up_to: float = float("inf")
    """Pixels of the largest region that this is asked of: large panels and lanes have empty quarters."""

    deformation: float = float("inf")
    """Veto: most pixels that parts of a region lie beside where the transform says. Of nearly all copies it is less
    than half of that, of the next section of a tissue and of squares on a ruler more."""
    deformation_from: int = 1_000
    """Pixels from which this can be told. By hand."""

    flat: float = 0.0
    """Veto: least correlation of the grain where the picture is flat, as a share of that of the whole: else it is edges
    that are alike, not grain. Measured for shifts: copies have 0.94 and more, rulers and letters 0.89 at most."""

    shallow: bool = False
    """Whether small regions of few grey levels prove something: a tier that knows what JPEG leaves alike says so."""

    label: bool = True
    """Veto: whether a pair can be two letters or scale bars at the same corner of two panels."""

    repeats_from: float = 0.8
    """Veto: correlation of the source's grain with another place beside its copy from which the texture repeats by
    nature. By hand."""
    repeats_inside: bool = False
    """Veto: whether the region is also asked at a few places of its own. Not of objects: another nucleus is smooth
    too."""

    search: float = 1.0
    """Limit: share of a figure's time up to which candidates are searched for: a slow tier leaves time for the next. 1
    is no limit."""
    confirm: float = 1.0
    """Limit: share of a figure's time up to which they are aligned or grown. 1 is no limit."""

    most_scored: int = 60
    """Limit: matches that the verifier scores, the most significant ones. By hand: bounds the time."""
    most_alike: int = 2_000
    """Limit: pairs that are alike at all. Where there are more, as in a lattice of dots, everything is. By hand."""
    most_peers: int = 12
    """Limit: other pairs that are about as significant. Where there are more, the figure repeats by nature. By hand."""

    @property
    def features(self) -> tuple[Feature, ...]:
        """What a curve knows of its matches, in the order of decision files."""
        return tuple(feature for feature in self.all_features if feature.sign)

    @property
    def all_features(self) -> tuple[Feature, ...]:
        """What trees know of them."""
        return tuple(feature for feature in FEATURES if self.name in feature.tiers)


# By hand: between what true and false matches of synthetic figures show, held by the regression table.
TIERS: Mapping[str, Tier] = {
    tier.name: tier
    for tier in (
        Tier(
            TierName.OBJECTS,
            worst_quadrant=0.4,
            deformation=0.6,
            deformation_from=300,
            repeats_from=0.95,
            search=0.7,
            confirm=0.85,
            most_scored=100,
            most_peers=30,
        ),
        Tier(TierName.KEYPOINTS, worst_quadrant=0.6, deformation=0.65, repeats_inside=True),
        Tier(TierName.BLOTS, deformation=0.8, search=0.5, confirm=0.6),
        Tier(TierName.SHIFTS, worst_quadrant=0.6, flat=0.9, shallow=True),
        Tier(
            TierName.PANELS,
            worst_quadrant=0.4,
            worst_quadrant_up_to=2_500,
            deformation=1.2,
            label=False,
            repeats_from=0.65,  # of a panel only the middle is compared: plates and arrays fit at many places
            repeats_inside=True,
            search=0.3,
            confirm=0.3,
        ),
    )
}
"""Every tier, in the order in which curves are fitted and written."""
