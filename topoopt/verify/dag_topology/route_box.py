"""A box of circuits and routes, which a tree of a proof splits."""

from __future__ import annotations

from dataclasses import dataclass

Counts = tuple[int, ...]


@dataclass(frozen=True)
class RouteBox:
    """Circuits of all pairs of pods, and the numbers of the routes that each direction may take."""

    least: Counts
    most: Counts
    routes: tuple[Counts, ...]

    @property
    def point(self) -> bool:
        """Nothing is left to choose."""
        return self.least == self.most and all(len(each) == 1 for each in self.routes)

    def split(self, pair: int, count: int) -> tuple[RouteBox, RouteBox]:
        """At most so many circuits of a pair, and the rest; or one route of a direction, and the others.

        Raises:
            ValueError: one part is empty, or there is no such pair or direction.
        """
        if pair < len(self.least):
            if not self.least[pair] <= count < self.most[pair]:
                raise ValueError(f"pair {pair} cannot be split at {count}")
            low = (*self.most[:pair], count, *self.most[pair + 1 :])
            high = (*self.least[:pair], count + 1, *self.least[pair + 1 :])
            return RouteBox(self.least, low, self.routes), RouteBox(high, self.most, self.routes)
        k = pair - len(self.least)
        if k >= len(self.routes) or count not in self.routes[k] or len(self.routes[k]) < 2:
            raise ValueError(f"direction {k} cannot be split at route {count}")
        others = tuple(one for one in self.routes[k] if one != count)
        one, rest = ((*self.routes[:k], left, *self.routes[k + 1 :]) for left in ((count,), others))
        return RouteBox(self.least, self.most, one), RouteBox(self.least, self.most, rest)
