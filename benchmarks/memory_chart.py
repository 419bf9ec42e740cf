"""Draws the memory of both operators over the number of watched objects, from bench-details.json.

Run it with the Python that has matplotlib: `memory_chart.py DETAILS PNG`.
"""

import json
import sys
from pathlib import Path

import matplotlib as mpl  # type: ignore[import-not-found]  # in the environment of the benchmarks
from matplotlib import pyplot

LIMIT_MB = 150


def main(details: Path, picture: Path) -> None:
    """Draw the chart of the scale benchmark."""
    mpl.use("Agg")
    steps = json.loads(details.read_text())["scale"]
    objects = [step["count"] * 11 for step in steps]
    figure, axes = pyplot.subplots(figsize=(7, 4), dpi=110)
    for key, label in (("controller_runtime", "controller-runtime"), ("quintet", "Quintet")):
        axes.plot(objects, [step[key]["peak_mb"] for step in steps], marker="o", label=label)
    axes.axhline(LIMIT_MB, linestyle=":", color="grey", label=f"target: {LIMIT_MB} MB")
    axes.set_xlabel("watched objects (custom resources + 10 ConfigMaps each)")
    axes.set_ylabel("peak memory, MB")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(picture, metadata={"Software": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
