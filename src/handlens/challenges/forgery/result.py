"""What a notebook gets for a figure: is it forged, which groups of regions, and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.findings import Findings, Group
from handlens.results import outline, picture_html, table_html


@dataclass(frozen=True, eq=False, repr=False)
class ForgeryResult:
    """Copies within one figure: regions that are alike. It says nothing of intent."""

    image: npt.NDArray[Any]
    findings: Findings

    @property
    def is_forged(self) -> bool:
        """Whether a region is answered as a copy of another."""
        return self.findings.forged

    @property
    def probability(self) -> float:
        """That the figure holds a copy."""
        return self.findings.probability

    @property
    def cut(self) -> tuple[str, ...]:
        """Tiers that the time limit ended early: with more seconds, or on a faster machine, they may find more."""
        return self.findings.cut

    @property
    def groups(self) -> tuple[Group, ...]:
        """A source and its copies each, the surest first; `matches` of a group have transform and evidence."""
        return self.findings.groups

    @cached_property
    def instances(self) -> tuple[npt.NDArray[np.bool_], ...]:
        """(H, W) masks, one for each group: the source and all its copies together, as the contest asks."""
        return tuple(group.mask(self.findings.shape) for group in self.groups)

    @cached_property
    def table(self) -> Mapping[str, list[Any]]:
        """A row for each match of a region with its copy; for `pandas.DataFrame`."""
        rows = [(number, match) for number, group in enumerate(self.groups, 1) for match in group.matches]
        return {
            "group": [number for number, _ in rows],
            "probability": [match.probability for _, match in rows],
            "source_x": [match.source.centre[0] for _, match in rows],
            "source_y": [match.source.centre[1] for _, match in rows],
            "copy_x": [match.copy.centre[0] for _, match in rows],
            "copy_y": [match.copy.centre[1] for _, match in rows],
            "pixels": [match.source.area for _, match in rows],
            "turn": [match.turn for _, match in rows],
            "scale": [match.scale for _, match in rows],
            "mirrored": [match.mirrored for _, match in rows],
        }

    def overlay(self) -> npt.NDArray[np.uint8]:
        """The figure with every group outlined in a colour of its own."""
        from handlens.challenges.forgery.inspection.aligning import as_display

        return outline(as_display(self.image), self.instances)

    def __repr__(self) -> str:
        height, width = self.findings.shape
        verdict = f"{len(self.groups)} copied group(s)" if self.is_forged else "no copies found"
        cut = f", cut short by its time limit ({', '.join(self.cut)})" if self.cut else ""
        return f"<ForgeryResult {height}x{width}: {verdict}, probability {self.probability:.2f}{cut}>"

    def _repr_html_(self) -> str:
        shown = picture_html(self.overlay(), repr(self).strip("<>"))
        return shown + (table_html(self.table) if self.is_forged else "")
