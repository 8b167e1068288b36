"""Three hospitals in NVFlare's simulator: ``python run_simulator.py FOLDER``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from discreet_nvflare import TASK, DiscreetController, DiscreetExecutor
from nvflare.job_config.api import FedJob

SITES = ("north", "south", "east")


def main() -> None:
    """Make a consortium, run the plan as a job, print the evaluation."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    hospitals = Path(__file__).resolve().parents[1] / "consortium" / "hospitals.py"
    subprocess.run([sys.executable, hospitals], cwd=folder, check=True)  # noqa: S603
    facts = ("--examples", "20000", "--prevalence", "0.25", "--sites", "3")
    model = ("--privacy", "distributed", "--epsilon", "1", "--name", "sepsis-demo")
    members = [word for site in SITES for word in ("--site", site)]
    for words in (
        ("plan", *facts, *model, "-o", "plan.toml"),
        ("consortium", "members", *members, "--plan", "plan.toml"),
    ):
        command = [sys.executable, "-c", "from discreet.cli.main import main; main()"]
        subprocess.run([*command, *words], cwd=folder, check=True)  # noqa: S603
    job = FedJob("discreet")
    own = folder / "members" / "coordinator" / "identity.key"
    report = folder / "evaluation.txt"
    job.to_server(DiscreetController(f"{folder}/plan.toml", str(report), str(own)))
    executor = DiscreetExecutor(
        f"{folder}/members/{{site}}", f"{folder}/{{site}}.parquet"
    )
    job.to_clients(executor, tasks=[TASK])
    job.simulator_run(str(folder / "nvflare"), clients=list(SITES), threads=3)
    print(report.read_text())  # noqa: T201


if __name__ == "__main__":
    main()
