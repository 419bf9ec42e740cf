"""Charts as inline SVG. Pure."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from quintet.dashboard.markup import Html, element

if TYPE_CHECKING:
    from quintet.inspect.panels.panel import Chart

_STEP, _BAR, _HEIGHT, _LEAST = 10, 8, 48, 1.5
_TINY = 1e-300


def render_chart(chart: Chart) -> Html:
    """Return a bar per value, in the order of time; the caption has the last, lowest and highest value."""
    values = [each.value for each in chart.points]
    bottom, top = min(0.0, *values), max(0.0, *values)
    span = top - bottom
    scale = (_HEIGHT - _LEAST) / span if _TINY < span < inf else 0.0
    zero = _HEIGHT - _LEAST + bottom * scale
    bars = []
    for number, each in enumerate(chart.points):
        y = min(zero, zero - each.value * scale)
        bars.append(
            element(
                "rect",
                element("title", f"{each.label}: {each.text}"),
                x=str(number * _STEP),
                y=f"{y:.2f}",
                width=str(_BAR),
                height=f"{abs(each.value) * scale + _LEAST:.2f}",
                class_=f"fill-{each.rating.name.lower()}",
            )
        )
    by_value = sorted(chart.points, key=lambda each: each.value)
    words = f"last {chart.points[-1].text}, lowest {by_value[0].text}, highest {by_value[-1].text}"
    width = _STEP * len(chart.points)
    return element(
        "figure",
        element("figcaption", element("strong", chart.title), f" {words}"),
        element(
            "svg",
            bars,
            viewBox=f"0 0 {width} {_HEIGHT}",
            width=str(width),
            height=str(_HEIGHT),
            role="img",
            aria_label=f"{chart.title}: {words}",
        ),
    )
