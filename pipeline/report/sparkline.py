"""Lag as one word: a line without a scale, for a column of a table."""

from collections.abc import Sequence

from ..answers.series import Point
from ..answers.words import compact
from .markup import Html, h

__all__ = ["sparkline"]

WIDTH, HEIGHT = 120, 26


def sparkline(points: Sequence[Point]) -> Html:
    known = [point.lag for point in points if point.lag is not None]
    if len(known) < 2:
        return Html("<span class=faint>not known</span>")
    top = max(max(known), 1)
    step = (WIDTH - 4) / (len(points) - 1)
    path, pen = [], "M"
    for number, point in enumerate(points):
        if point.lag is None:
            pen = "M"
            continue
        y = HEIGHT - 3 - point.lag / top * (HEIGHT - 6)
        path.append(f"{pen}{2 + number * step:.1f} {y:.1f}")
        pen = "L"
    says = f"lag from {compact(known[0])} to {compact(known[-1])}, at most {compact(max(known))}"
    return Html(
        f'<svg class=spark viewBox="0 0 {WIDTH} {HEIGHT}" role=img aria-label="{h(says)}">'
        f'<title>{h(says)}</title><path d="{"".join(path)}"/></svg>'
    )
