"""A few pieces of SVG, with colours by CSS class so that a plot follows the page's light or dark colours."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup

STEPS = (1.0, 2.0, 5.0)
"""Labelled values within a decade of a logarithmic axis."""


class Scale(NamedTuple):
    """A logarithmic axis: values to pixels."""

    low: float
    high: float
    start: float
    """Pixel of `low`."""
    end: float
    """Pixel of `high`."""

    def __call__(self, value: float) -> float:
        """The pixel of a value; one outside of the axis lies on its end."""
        value = min(max(value, self.low), self.high)
        return self.start + (self.end - self.start) * math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self) -> list[float]:
        """Values to label: 1, 2 and 5 of every decade, or decades alone where those would be too many."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        steps = STEPS if last - first <= 3 else STEPS[:1]
        values = [step * 10.0**decade for decade in range(first, last + 1) for step in steps]
        return [value for value in values if self.low * 0.999 <= value <= self.high * 1.001]


def span(
    values: Iterable[float], *, room: float = 1.15, least: tuple[float, float] | None = None
) -> tuple[float, float]:
    """Ends of an axis that holds all values, with room at both.

    Args:
        values: positive numbers, at least one unless `least` is given.
        room: factor of the room at each end.
        least: values that the axis holds in any case.
    """
    known = [*values, *(least or ())]
    return min(known) / room, max(known) * room


def draw(width: int, height: int, parts: Sequence[Markup], *, label: str) -> Markup:
    """An <svg> element of its parts.

    Args:
        width, height: of its coordinates; the page scales it.
        parts: elements, the first one at the back.
        label: what it shows, for people who do not see it.
    """
    head = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(width, height, label)
    return head + Markup("").join(parts) + Markup("</svg>")


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """A straight line of a CSS class."""
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(kind, x1, y1, x2, y2)


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> Markup:
    """Text at a point; anchor is `start`, `middle` or `end`."""
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(kind, x, y, anchor, words)


def dot(x: float, y: float, radius: float, kind: str, *, title: str, href: str = "") -> Markup:
    """A circle with a tooltip; with `href` a link."""
    circle = Markup('<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="{}"><title>{}</title></circle>').format(
        kind, x, y, radius, title
    )
    return Markup('<a href="{}">{}</a>').format(href, circle) if href else circle


def path(points: Sequence[tuple[float, float]], kind: str, *, closed: bool = False) -> Markup:
    """A polyline through points."""
    steps = " L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return Markup('<path class="{}" d="M{}{}"/>').format(kind, steps, "Z" if closed else "")


def x_axis(scale: Scale, top: float, bottom: float, label: str, *, unit: str = "") -> Markup:
    """Grid lines and labels of a horizontal axis below `bottom`."""
    parts = [line(scale(value), top, scale(value), bottom, "grid") for value in scale.ticks()]
    parts += [text(scale(value), bottom + 16, f"{value:g}{unit}", "tick", "middle") for value in scale.ticks()]
    parts.append(text((scale.start + scale.end) / 2, bottom + 36, label, "label", "middle"))
    return Markup("").join(parts)


def y_axis(scale: Scale, left: float, right: float, label: str) -> Markup:
    """Grid lines and labels of a vertical axis left of `left`."""
    parts = [line(left, scale(value), right, scale(value), "grid") for value in scale.ticks()]
    parts += [text(left - 8, scale(value) + 4, f"{value:g}", "tick", "end") for value in scale.ticks()]
    parts.append(text(left, min(scale.start, scale.end) - 8, label, "label"))
    return Markup("").join(parts)
