"""Nothing heavy is loaded before it is needed, and every public name is there."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from typer.main import get_command

import discreet
from discreet import mpc
from discreet.cli.main import app
from discreet.errors import MissingExtraError

pytestmark = pytest.mark.long

HEAVY = {
    *("scipy", "matplotlib", "pyarrow", "jinja2", "dp_accounting", "jax", "flwr"),
    *("sklearn", "pandas", "polars", "spu", "cryptography", "numpy"),
}


def loaded(code, *, whole=False):
    script = f"import sys\n{code}\nprint(*sys.modules)"
    run = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    names = run.stdout.split()
    return set(names) if whole else {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    "code",
    [
        "import discreet",
        "import discreet; dir(discreet); discreet.InputError; discreet.__version__",
        """
from discreet.cli.main import main
sys.argv = ["discreet", "--help"]
try:
    main()
except SystemExit as end:
    assert end.code == 0
""",
    ],
)
def test_nothing_heavy_is_loaded_by_the_import_and_by_help(code):
    assert not loaded(code) & HEAVY


@pytest.mark.parametrize("command", ["site", "coordinate"])
def test_a_command_of_a_session_loads_neither_optimisers_nor_frames(command):
    modules = loaded(f"import discreet.cli.{command}", whole=True)
    assert not modules & {"pandas", "scipy.optimize", "scipy.stats", "flwr"}


def test_a_privacy_model_needs_neither_files_nor_plots_and_no_engine():
    heavy = HEAVY - {"numpy", "scipy", "cryptography"}
    assert not loaded("import discreet; discreet.LocalDP(1)") & heavy
    assert not loaded("import discreet.mpc") & {"spu", "jax"}


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch):
    for name in ("spu", "spu.libspu"):
        monkeypatch.setitem(sys.modules, name, None)
    rows = [discreet.Examples([0.1, 0.9], [0, 1])]
    with pytest.raises(MissingExtraError, match=r"Python 3\.11") as error:
        mpc.evaluate(rows)
    assert str(error.value).count(".[mpc]") == 1


def test_every_public_name_is_loaded_on_demand_and_listed():
    for name in discreet.__all__:
        assert getattr(discreet, name) is not None
    assert set(discreet.__all__) <= set(dir(discreet))
    from discreet import evaluate
    from discreet.transport.simulation import evaluate as at_home

    assert evaluate is at_home is discreet.evaluate
    with pytest.raises(AttributeError, match="no attribute 'evalute'"):
        _ = discreet.evalute


def test_type_checkers_are_told_the_homes_that_names_are_loaded_from():
    tree = ast.parse(Path(discreet.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    told = {
        alias.name: node.module.removeprefix("discreet.")
        for node in block.body
        for alias in node.names
        if node.module != "discreet"
    }
    assert told == discreet._HOMES
    eager = {name for name in vars(discreet.errors) if name in discreet.__all__}
    assert {*told, *eager, "curator"} == set(discreet.__all__)


def test_what_help_says_of_a_command_is_its_own_first_line():
    group = get_command(app)
    context = typer.Context(group)
    panels = []
    for name in group.list_commands(context):
        promised = group.get_command(context, name)
        _, command, _ = group.resolve_command(context, [name])
        assert command.name == name
        assert command.help.split("\n\n")[0].replace("\n", " ") == promised.help
        panels.append(promised.rich_help_panel.partition(":")[0])
    order = ["Analyst", "Site", "Coordinator", "Reviewer"]
    assert panels == sorted(panels, key=order.index)
    assert set(panels) == set(order)


ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMES = {"sklearn": "scikit-learn"}


def declared(*lists):
    found = (re.match(r"[A-Za-z0-9_-]+", name)[0] for names in lists for name in names)
    return {name.lower() for name in found}


def imported(path):
    """Yield what a file imports, and whether it does so when it is loaded itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    at_once = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                modules = [alias.name for alias in node.names]
            case ast.ImportFrom():
                modules = [node.module]
            case _:
                continue
        for module in {name.partition(".")[0] for name in modules}:
            if module not in sys.stdlib_module_names and module != "discreet":
                name = NAMES.get(module, module.replace("_", "-"))
                yield name, id(node) in at_once


def test_everything_that_is_imported_is_declared():
    """What another package happens to bring is gone when that package changes."""
    core, extras = PROJECT["dependencies"], PROJECT["optional-dependencies"]
    package = ROOT / "src" / "discreet"
    anywhere = declared(core, *extras.values()) - declared(
        extras["dev"], extras["test"]
    )
    for path in package.rglob("*.py"):
        inside = path.relative_to(package).as_posix()
        own = (
            "flower" if inside.startswith(("flower.py", "transport/flower/")) else None
        )
        own = "mpc" if inside.startswith("mpc/") else own
        own = "deploy" if inside.startswith("transport/https/") else own
        own = "score" if inside.startswith("data/onnx_") else own
        for name, at_once in imported(path):
            wanted = declared(core, extras.get(own, ())) if at_once else anywhere
            assert name in wanted, f"{inside} imports {name}"
