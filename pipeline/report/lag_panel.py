"""Lag over time: what the logs hold that a group has not committed, of all its partitions."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ..answers.series import Point
from ..answers.words import clock, compact, count
from .markup import h
from .scale import LEFT, WIDTH, Scale

__all__ = ["HEIGHT", "lag_panel"]

HEIGHT = 140
_TOP = 8


def lag_panel(scale: Scale, points: Sequence[Point], y: float) -> str:
    """Drawn from `y` down, so high as HEIGHT."""
    known = [point.lag for point in points if point.lag is not None]
    bottom = y + HEIGHT
    if not known:
        where = f'x="{LEFT + 12}" y="{y + HEIGHT / 2}"'
        return f"<text class=faint {where}>not known: nobody told where the logs end</text>"
    top = _nice(max(known))

    def at(lag: float) -> float:
        return round(bottom - lag / top * (HEIGHT - _TOP), 1)

    drawn = [
        f'<line class=rule x1="{LEFT}" x2="{WIDTH}" y1="{at(lag)}" y2="{at(lag)}"/>'
        f'<text class=tick x="{LEFT - 8}" y="{at(lag) + 4}" text-anchor=end>{compact(lag)}</text>'
        for lag in (0, top / 2, top)
    ]
    for run in _runs(points):
        line = "L".join(f"{scale.x(point.at)} {at(point.lag or 0)}" for point in run)
        first, last = scale.x(run[0].at), scale.x(run[-1].at)
        drawn.append(f'<path class=area d="M{first} {bottom}L{line}L{last} {bottom}z"/>')
        drawn.append(f'<path class=line d="M{line}"/>')
    drawn += _touched(scale, points, y)
    return "".join(drawn)


def _touched(scale: Scale, points: Sequence[Point], y: float) -> Iterator[str]:
    """What the mouse meets: the whole height of a point's time."""
    for before, point in pairwise(points):
        x, end = scale.x(before.at), scale.x(point.at)
        says = f"{clock(point.at)}  lag {'not known' if point.lag is None else count(point.lag)}"
        yield (
            f'<rect class=touch x="{x}" y="{y}" width="{end - x:.1f}" height="{HEIGHT}">'
            f"<title>{h(says)}</title></rect>"
        )


def _runs(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Without the points of which nothing is known."""
    run: list[Point] = []
    for point in points:
        if point.lag is not None:
            run.append(point)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _nice(number: float) -> float:
    """The next of 1, 2, 4 and 6 times a power of ten; its half is a round number, too."""
    size = 1.0
    while size * 10 <= number:
        size *= 10
    return next(size * each for each in (1, 2, 4, 6, 10) if size * each >= number or each == 10)
