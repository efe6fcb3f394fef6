"""The whole of what was copied: a match of one object may be a part of a region that was copied with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from handlens.challenges.forgery.detect.canvas import Canvas
from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.findings import Match, Patch, TierName
from handlens.challenges.forgery.detect.geometry.halo import with_halo
from handlens.challenges.forgery.detect.geometry.points import FEWEST, shared_interior
from handlens.challenges.forgery.detect.geometry.region_growing import RegionGrowing
from handlens.challenges.forgery.detect.grouping import says_the_same
from handlens.challenges.forgery.detect.verifier.evidence import measure
from handlens.challenges.forgery.detect.verifier.features import significance
from handlens.challenges.forgery.detect.verifier.vetoes import is_deformed


@dataclass(frozen=True, slots=True)
class Extension:
    """When a region around an object is believed: it must be much larger, as alike everywhere, and more significant."""

    larger: float = 1.5
    """Least area, relative to the object with its halo. By hand."""
    alike: float = 0.8
    """Least correlation of detail and grain, relative to those of the object. By hand."""
    worst_quadrant: float = 0.5
    """Least correlation of its least alike quadrant, relative to the whole. By hand."""
    significant: float = 1.2
    """Least significance, relative to that of the object: what agrees by chance around it adds nothing. By hand."""
    deformation: float = 0.65
    """Most deformation, in pixels: more, and it is the next section of the same tissue. By hand, as of keypoints."""
    deformation_from: int = 1_000
    """Pixels from which this can be told. By hand."""
    most: int = 12
    """Most objects around which a region is grown, the surest ones. By hand: bounds the time."""
    growing: RegionGrowing = field(default_factory=RegionGrowing)

    def extend(self, canvas: Canvas, matches: Sequence[Match], clock: Clock) -> Iterator[Match]:
        """The matches, the surest first, objects with their halo or with the whole region that they are a part of.

        An object whose region is deformed is none of them: it lies in the next section of the same tissue.
        """
        regions: list[Match] = []
        looks = 0
        for match in sorted(matches, key=lambda each: -each.probability):
            if match.tier != TierName.OBJECTS:
                yield match
                continue
            if any(says_the_same(match, region) for region in regions):
                continue
            haloed = with_halo(canvas, match)
            region = None
            if looks < self.most and clock.allows("regions around objects"):
                looks += 1
                region = self._whole(canvas, match, self.larger * haloed.source.area)
            if region is None:
                yield haloed
                continue
            regions.append(region)
            if not is_deformed(region.evidence, most=self.deformation, least_pixels=self.deformation_from):
                yield region

    def _whole(self, canvas: Canvas, match: Match, smallest: float) -> Match | None:
        """The region around an object in which everything agrees; None where that is hardly more than the object."""
        seed = np.zeros(canvas.shape, np.bool_)
        match.copy.paint(seed)
        found = self.growing.grow_seed(canvas, match.matrix, seed)
        if found is None or found[0].area < smallest:
            return None
        source, copy, matrix = found
        points = shared_interior(source, matrix, canvas.blocked)
        if len(points) < FEWEST:
            return None
        evidence = dict(match.evidence) | measure(canvas, points, matrix)
        as_alike = all(evidence[name] >= self.alike * match.evidence[name] for name in ("detail", "grain"))
        before, after = _significance(match.evidence, match.source), _significance(evidence, source)
        if not as_alike or evidence["worst_quadrant"] < self.worst_quadrant or after < self.significant * before:
            return None
        return replace(match, source=source, copy=copy, matrix=matrix, evidence=evidence)


def _significance(evidence: Mapping[str, float], region: Patch) -> float:
    """That of all pixels of a region, of which `measure` looks at some thousands at most."""
    return significance({**evidence, "pixels": float(region.area)})
