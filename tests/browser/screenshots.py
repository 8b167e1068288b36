"""Take the pictures of the documentation: the page as readers see it, and every plot.

make pictures
"""

from __future__ import annotations

import sys
import tempfile
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from PIL import Image

import discreet
from browser.devtools import Browser
from discreet.cli.demo import simulate_hospitals
from discreet.entropy import Seeded
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import ModelRef, recommend
from discreet.report.plan_page import plan_page
from discreet.transport.comparison import compare
from discreet.transport.simulation import run

PLOTS = ("roc", "pr", "det", "det-log", "calibration")


def results():
    """The demo's three largest hospitals, with groups and a rival: seeded."""
    hospitals = simulate_hospitals()[:3]
    rng = np.random.default_rng(1)
    sites, pairs = [], []
    for name, each in zip(("north", "south", "east"), hospitals, strict=True):
        old = rng.random(each.scores.size) < 0.4
        rival = np.clip(each.scores + rng.normal(0, 0.2, each.scores.size), 0, 1)
        groups = np.where(old, "65 and older", "younger")
        sites.append(
            discreet.Examples(each.scores, each.labels, groups=groups, name=name)
        )
        both = np.column_stack([each.scores, rival])
        pairs.append(discreet.Examples(both, each.labels, name=name))
    privacy = discreet.DistributedDP(1)
    facts = PublicFacts(20_000, 0.25)
    made = {}
    for what, groups in (("page", None), ("groups", ["65 and older", "younger"])):
        plan = recommend(
            facts,
            privacy,
            cohort=privacy.cohort(3),
            thresholds=[0.3, 0.5],
            groups=groups,
            model=ModelRef("sepsis-demo"),
        )
        made[what] = run(plan, sites, entropy=Seeded(b"pictures"))
    made["models"] = compare(
        pairs,
        privacy=privacy,
        examples=20_000,
        prevalence=0.25,
        names=("sepsis-demo", "rival"),
        entropy=Seeded(b"pictures"),
    )
    return made


def main(folder: Path) -> None:
    """Write the pictures."""
    made = results()
    for kind in PLOTS:
        with rc_context({"savefig.dpi": 90}):
            made["page"].plot(kind, folder / f"plot-{kind}.png")
    with tempfile.TemporaryDirectory() as work:
        pages = {}
        for name, result in made.items():
            pages[name] = Path(work) / f"{name}.html"
            result.save(pages[name])
        privacy = discreet.DistributedDP(1)
        plan = recommend(
            PublicFacts(2_000, 0.1), privacy, cohort=privacy.cohort(5),
            model=ModelRef("sepsis-demo"),
        )  # fmt: skip
        pages["plan"] = Path(work) / "plan.html"
        drawn = plan_page(plan, sites=5, auc=0.8, repetitions=8)
        pages["plan"].write_text(drawn, encoding="utf-8")
        browser = Browser(Path(work) / "profile")
        looks = {
            "page-desktop": ("page", {"width": 1100}),
            "page-dark": ("page", {"width": 1100, "dark": True}),
            "page-phone": ("page", {"phone": True}),
            "page-print": ("page", {"width": 800, "paper": True}),
            "page-groups": ("groups", {"width": 1100}),
            "page-models": ("models", {"width": 1100}),
            "page-plan": ("plan", {"width": 1100}),
        }
        for name, (page, pilot) in looks.items():
            tab = browser.open(pages[page], **pilot)
            seen = Image.open(BytesIO(tab.picture())).convert("RGB")
            small = seen.quantize(200, dither=Image.Dither.NONE)  # flat colours
            small.save(folder / f"{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
