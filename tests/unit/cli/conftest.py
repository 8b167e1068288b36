import numpy as np
import pytest


@pytest.fixture
def two_sites(tmp_path, rng):
    """Return the paths of two files of calibrated scores."""
    paths = []
    for name in ("north", "south"):
        s = rng.random(3000)
        y = (rng.random(3000) < s).astype(int)
        paths.append(str(tmp_path / f"{name}.csv"))
        table = np.column_stack([s, y])
        header = {"header": "y_score,y_true", "comments": ""}
        np.savetxt(paths[-1], table, ["%.6f", "%d"], ",", **header)
    return paths
