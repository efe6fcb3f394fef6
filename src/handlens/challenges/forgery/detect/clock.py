"""How much time a figure may take, and how much of it is left."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Clock:
    """Counts the processor time of this thread, so that other work on the machine does not change an answer.

    The tiers plan their work by the size of the figure; the clock is the brake for those that take long all the same.
    """

    seconds: float
    start: float = field(default_factory=time.thread_time)
    cut: list[str] = field(default_factory=list)

    @classmethod
    def resumed(cls, seconds: float, used: float, cut: Iterable[str]) -> Clock:
        """A clock of which so much was used before, perhaps in another process, and what was cut then."""
        return cls(seconds, time.thread_time() - used, list(cut))

    @property
    def used(self) -> float:
        return time.thread_time() - self.start

    @property
    def left(self) -> float:
        return self.seconds - self.used

    def allows(self, tier: str, *, share: float = 1.0) -> bool:
        """Whether less than this share of the time is used; a tier that is refused is remembered in `cut`."""
        if self.left > (1 - share) * self.seconds:
            return True
        if tier not in self.cut:
            self.cut.append(tier)
        return False
