"""Take the pictures of the documentation: the page as readers see it, and every plot.

make pictures
"""

from __future__ import annotations

import sys
import tempfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
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

AGES = ["under 45", "45 to 64", "65 to 79", "80 and older"]
SHOTS = {
    "page-desktop": ("page", {"width": 1280}, 9999),
    "page-dark": ("page", {"width": 1280, "dark": True}, 1800),
    "page-phone": ("page", {"phone": True}, 4000),
    "page-print": ("page", {"width": 703, "paper": True}, 9999),
    "page-groups": ("groups", {"width": 1280}, 9999),
    "page-groups-phone": ("groups", {"phone": True}, 4000),
    "page-models": ("models", {"width": 1280}, 3600),
    "page-sites": ("sites", {"width": 1280}, 1100),
    "page-rare": ("rare", {"width": 1280}, 2450),
    "page-plan": ("plan", {"width": 1100}, 9999),
    "page-per-site": ("per-site", {"width": 1280}, 1100),
    "page-timed": ("timed", {"width": 1280}, 1500),
    "demo-page": ("demo", {"width": 1280}, 1890),
}
"""Each picture: which page, how it is looked at, and how many pixels it is high at most."""
PLOTS = ("roc", "pr", "det", "det-log", "calibration")


def results():
    """The demo's three largest hospitals, with groups and a rival: seeded."""
    hospitals = simulate_hospitals()[:3]
    rng = np.random.default_rng(1)
    sites, pairs = [], []
    for name, each in zip(("north", "south", "east"), hospitals, strict=True):
        size = each.scores.size
        rival = np.clip(each.scores + rng.normal(0, 0.2, size), 0, 1)
        groups = rng.choice(AGES, size, p=[0.3, 0.35, 0.25, 0.1])
        worse = np.clip(each.scores + rng.normal(0, 0.2, size), 0, 1)
        scores = np.where(groups == AGES[-1], worse, each.scores)
        sites.append(discreet.Examples(scores, each.labels, groups=groups, name=name))
        both = np.column_stack([each.scores, rival])
        pairs.append(discreet.Examples(both, each.labels, name=name))
    privacy = discreet.DistributedDP(1)
    facts = PublicFacts(20_000, 0.25)
    made = {}
    for what, groups in (("page", None), ("groups", AGES)):
        plan = recommend(
            facts,
            privacy,
            cohort=privacy.cohort(3),
            thresholds=[0.3, 0.5],
            groups=groups,
            model=ModelRef("sepsis-demo"),
        )
        made[what] = run(plan, sites, entropy=Seeded(b"pictures"))
    made["sites"] = discreet.evaluate(
        [each.examples() for each in simulate_hospitals()],
        examples=30_000,
        prevalence=0.25,
        heterogeneity=["auc", "log_oe"],
        name="sepsis-demo",
    )
    made["rare"] = _rare()
    made["per-site"] = _per_site()
    made["timed"] = _timed()
    every = [each.examples() for each in simulate_hospitals()]
    made["demo"] = _seeded(every, PublicFacts(30_000, 0.25), "sepsis-demo")
    made["models"] = compare(
        pairs,
        privacy=privacy,
        examples=20_000,
        prevalence=0.25,
        names=("sepsis-demo", "rival"),
        entropy=Seeded(b"pictures"),
    )
    return made


def _per_site():
    """One frame of five hospitals, which is the caller's own."""
    names = ("north", "south", "east", "west", "coast")
    parts = [
        pd.DataFrame({"y_score": h.scores, "y_true": h.labels, "hospital": name})
        for name, h in zip(names, simulate_hospitals(), strict=False)
    ]
    return discreet.evaluate(pd.concat(parts), site="hospital", name="sepsis-demo")


def _timed():
    """Follow-up at three sites, with risks by five years."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=6000)
    died, left = rng.exponential(3000 * np.exp(-z)), rng.uniform(0, 4000, 6000)
    risk, time = 1 - np.exp(-1825 / 3000 * np.exp(z)), np.minimum(died, left)
    sites = [
        discreet.Examples(risk[k::3], time=time[k::3], event=(died <= left)[k::3])
        for k in range(3)
    ]
    return discreet.evaluate(
        sites,
        horizons=[365, 1825],
        examples=6000,
        prevalence=0.3,
        privacy="distributed",
        epsilon=1,
        name="survival-demo",
    )


def _rare():
    """A rare event under noise, which nobody named."""
    rng = np.random.default_rng(11)
    y = rng.random(30_000) < 0.008
    scores = 1 / (1 + np.exp(-rng.normal(1.6 * y + np.log(0.008), 1)))
    sites = [discreet.Examples(scores[k::4], y[k::4]) for k in range(4)]
    return _seeded(sites, PublicFacts(30_000, 0.008))


def _seeded(sites, facts, name=""):
    privacy = discreet.DistributedDP(1)
    cohort = privacy.cohort(len(sites))
    plan = recommend(facts, privacy, cohort=cohort, model=ModelRef(name))
    return run(plan, sites, entropy=Seeded(b"pictures"))


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
        for name, (page, pilot, most) in SHOTS.items():
            tab = browser.open(pages[page], **pilot)
            seen = Image.open(BytesIO(tab.picture())).convert("RGB")
            seen = seen.crop((0, 0, seen.width, min(seen.height, most)))
            small = seen.quantize(
                256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
            )
            small.save(folder / f"{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
