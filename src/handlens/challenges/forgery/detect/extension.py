"""The whole of what was copied: a match of one object may be a part of a region that was copied with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from handlens.challenges.forgery.detect.canvas.canvas import Canvas
from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.findings import Match, Patch
from handlens.challenges.forgery.detect.geometry.halo import with_rim
from handlens.challenges.forgery.detect.geometry.points import FEWEST, shared_interior
from handlens.challenges.forgery.detect.geometry.region_growing import Agreement
from handlens.challenges.forgery.detect.grouping import says_the_same
from handlens.challenges.forgery.detect.verifier.decision import proof
from handlens.challenges.forgery.detect.verifier.evidence import measure
from handlens.challenges.forgery.detect.verifier.vetoes import is_bent


@dataclass(frozen=True, slots=True)
class Growth:
    """When a region around an object is believed: it must be much larger, as alike everywhere, and prove more."""

    larger: float = 1.5
    """Least area, relative to the object with its rim."""
    alike: float = 0.8
    """Least likeness of detail and grain, relative to those of the object."""
    even: float = 0.5
    """Least likeness of its least alike quarter, relative to the whole."""
    proves: float = 1.2
    """Least proof, relative to that of the object: what agrees by chance around it proves nothing."""
    most: int = 12
    """Most objects around which is looked, the surest ones."""
    agreement: Agreement = field(default_factory=Agreement)

    def grow(self, canvas: Canvas, matches: Sequence[Match], clock: Clock) -> Iterator[Match]:
        """The matches, the surest first, objects with their rims or with the whole region that they are a part of.

        An object whose region is bent is none of them: it lies in the next section of the same tissue.
        """
        regions: list[Match] = []
        looks = 0
        for match in sorted(matches, key=lambda each: -each.probability):
            if match.tier != "objects":
                yield match
                continue
            if any(says_the_same(match, region) for region in regions):
                continue
            rimmed = with_rim(canvas, match)
            region = None
            if looks < self.most and clock.allows("regions around objects"):
                looks += 1
                region = self._whole(canvas, match, self.larger * rimmed.source.area)
            if region is None:
                yield rimmed
                continue
            regions.append(region)
            if not is_bent("regions", region.evidence):
                yield region

    def _whole(self, canvas: Canvas, match: Match, smallest: float) -> Match | None:
        """The region around an object in which everything agrees; None where that is hardly more than the object."""
        seed = np.zeros(canvas.shape, np.bool_)
        match.copy.paint(seed)
        found = self.agreement.settle(canvas, match.matrix, seed)
        if found is None or found[0].area < smallest:
            return None
        source, copy, matrix = found
        points = shared_interior(source, matrix, canvas.blocked)
        if len(points) < FEWEST:
            return None
        evidence = dict(match.evidence) | measure(canvas, points, matrix)
        as_alike = all(evidence[name] >= self.alike * match.evidence[name] for name in ("detail", "grain"))
        before, after = _proof(match.evidence, match.source), _proof(evidence, source)
        if not as_alike or evidence["even"] < self.even or after < self.proves * before:
            return None
        return replace(match, source=source, copy=copy, matrix=matrix, evidence=evidence)


def _proof(evidence: Mapping[str, float], region: Patch) -> float:
    """What all pixels of a region prove, of which `measure` looks at some thousands at most."""
    return proof({**evidence, "pixels": float(region.area)})
