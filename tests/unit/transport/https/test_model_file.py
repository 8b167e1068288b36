"""A model file over the port: the plan's bytes or nothing, and the policy before a run."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from discreet.cli.main import app
from discreet.data import scoring
from discreet.data.labels import LabelCode
from discreet.data.scoring import ModelFile, digest_of
from discreet.errors import DiscreetError
from discreet.plan.file import dumps
from discreet.plan.plan import ModelRef, Plan
from discreet.privacy.ledger import Ledger
from discreet.session import policy as policyfile
from discreet.transport.addresses import LOOPBACK
from discreet.transport.https import client
from policies import open_policy
from unit.data import onnx_files
from unit.transport.https.port import Port, listening, make

OTHER = b"the bytes of another file"


@pytest.fixture(scope="module")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan]:
    """Keys, a plan that names a model file, and that file."""
    folder = tmp_path_factory.mktemp("consortium")
    place = folder / "model.onnx"
    place.write_bytes(onnx_files.MLP)
    model = ModelFile(place)
    plan = replace(make(folder), model=ModelRef.of(model, LabelCode()))
    model.close()
    (folder / "plan.toml").write_text(dumps(plan))
    rows = {name: [0.5] * 40 for name in onnx_files.INPUTS} | {"y_true": [0, 1] * 20}
    pq.write_table(pa.table(rows), folder / "rows.parquet")
    Ledger.new(folder / "north" / "ledger.sqlite").close()
    return folder, plan


def fetched(port: Port, folder: Path, into: Path) -> str:
    """Run ``discreet site fetch`` as north; return what it says."""
    address = f"{LOOPBACK}:{port.number}"
    words = ["site", "fetch", "--keys", str(folder / "north")]
    words += ["--out", str(into / "plan.toml"), "--model", str(into / "got.onnx")]
    run = CliRunner().invoke(app, [*words, "--coordinator", address])
    if isinstance(run.exception, DiscreetError):
        return str(run.exception)
    assert run.exit_code == 0, run.output
    return run.output


def test_a_site_gets_the_plans_file(
    consortium: tuple[Path, Plan], tmp_path: Path
) -> None:
    folder, plan = consortium
    with listening(folder, plan, model=onnx_files.MLP) as port:
        assert digest_of(onnx_files.MLP) in fetched(port, folder, tmp_path)
    assert (tmp_path / "got.onnx").read_bytes() == onnx_files.MLP


@pytest.mark.parametrize(
    ("served", "most", "words"),
    [
        (
            OTHER,
            None,
            "serves another model file than the plan names: nothing was kept",
        ),
        (onnx_files.MLP + b"\x00", None, "another model file than the plan names"),
        (None, None, "serves no model file: ask for it, or for `discreet coordinate"),
        (bytes(2001), 2000, "not as a coordinator of discreet"),
    ],
    ids=["other bytes", "a byte more", "none", "beyond the limit"],
)
def test_what_is_not_the_plans_file_is_one_sentence_and_nothing_is_kept(
    consortium: tuple[Path, Plan],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    served: bytes | None,
    most: int | None,
    words: str,
) -> None:
    folder, plan = consortium
    if most is not None:
        monkeypatch.setattr(client, "MOST_MODEL_BYTES", most)
    with listening(folder, plan, model=served) as port:
        said = fetched(port, folder, tmp_path)
    assert words in said
    assert "\n" not in said
    assert not list(tmp_path.iterdir())


def test_the_limit_of_a_served_file_is_that_of_a_file_on_disk() -> None:
    assert client.MOST_MODEL_BYTES == scoring.MOST_BYTES


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the processes that are started to run a model."""
    counted: list[int] = []
    real = scoring.ModelProcess

    def start() -> scoring.ModelProcess:
        counted.append(1)
        return real()

    monkeypatch.setattr(scoring, "ModelProcess", start)
    return counted


@pytest.mark.parametrize("command", [("site", "doctor"), ("preview",)])
@pytest.mark.parametrize("allowed", [True, False])
def test_a_model_file_that_the_policy_does_not_list_is_never_run(
    consortium: tuple[Path, Plan],
    started: list[int],
    command: tuple[str, ...],
    allowed: bool,
) -> None:
    folder, plan = consortium
    listed = plan.model.digest if allowed else digest_of(OTHER)
    rules = replace(
        open_policy(
            population="people",
            privacy=("distributed",),
            epsilon_per_plan=Fraction(1),
            epsilon_total=Fraction(1),
            sessions_per_plan=1,
            sites=3,
        ),
        models=(listed,),
    )
    (folder / "north" / "policy.toml").write_text(policyfile.dumps(rules))
    words = [*command, str(folder / "plan.toml"), str(folder / "rows.parquet")]
    words += ["--keys", str(folder / "north"), "--model", str(folder / "model.onnx")]
    run = CliRunner().invoke(app, [*words, "--confirmed"])
    said = run.output + str(run.exception)
    assert ("allow.models lists digests of files" in said) is not allowed
    assert bool(started) is allowed, said
