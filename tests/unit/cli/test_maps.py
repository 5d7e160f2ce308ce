"""Tables as sites have them, mapped for one study: in Python and by a result's own words for new rows."""

import json

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from tests.tolerances import RESULT_BAR, assert_close

from fedsvd import FederatedLinearRegression, Policy, Simulation, load, prepared
from fedsvd.errors import ConfigError

OWN = Simulation(policy=Policy.permissive())
WEST = {
    "encoding": "latin-1",
    "missing": ["."],
    "map": {
        "Geschlecht": {"name": "sex", "levels": {"w": "f", "m": "m"}},
        "Größe (in)": {"name": "height", "factor": 2.54},
        "bili": {"factor": 1 / 17.1, "missing": [-9]},
    },
}


@pytest.fixture
def joint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(8)
    n = 240
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "height": rng.normal(170, 9, n).round(1)})
    frame["bili"] = np.exp(rng.normal(0.3, 0.6, n)).round(2)
    frame["y"] = (0.01 * frame["height"] + (frame["sex"] == "m") + 0.3 * frame["bili"] + rng.normal(size=n)).round(4)
    frame[:80].to_csv("north.csv", index=False)
    frame[80:160].to_csv("south.csv", index=False)
    west = frame[160:].copy()
    west["bili"] = west["bili"] * 17.1
    west.loc[west.index[:3], "bili"] = -9
    west["sex"] = west["sex"].map({"f": "w", "m": "m"})
    west["height"] = west["height"] / 2.54
    west.columns = ["Geschlecht", "Größe (in)", "bili", "y"]
    text = west.to_csv(sep=";", index=False)
    (tmp_path / "west.csv").write_text(text, encoding="latin-1")
    return frame


def test_python_maps_tables_for_one_study(joint):
    words = {"formula": "y ~ C(sex) + height + bili", "missing": "drop", "policy": Policy.permissive()}
    made = prepared(["north.csv", "south.csv", "west.csv"], map=[None, None, WEST], **words)
    model = FederatedLinearRegression(federation=OWN).fit(made, [table.column("y") for table in made])
    whole = joint.drop(index=joint.index[160:163])
    expected = smf.ols("y ~ C(sex) + height + bili", whole).fit().params.to_numpy()[1:]
    assert_close(model.coef_, expected, RESULT_BAR)
    alone = prepared("south.csv", map={"sex": {"levels": {"f": "1", "m": "2"}}}, drop=["sex"])
    assert alone.column("sex")[:1].tolist() == [{"f": "1", "m": "2"}[joint["sex"][80]]]


def test_a_map_that_is_none_is_refused(joint):
    with pytest.raises(ConfigError, match="map has 2 entries for 3 tables"):
        prepared(["north.csv", "south.csv", "west.csv"], map=[None, WEST])
    with pytest.raises(ConfigError, match="map is of the type int"):
        prepared("north.csv", map=3)
    with pytest.raises(ConfigError, match="factr"):
        prepared("north.csv", map={"bili": {"factr": 2}})


def test_plan_results_and_new_rows_know_the_map(fedsvd, joint, tmp_path):
    record = {key: value for key, value in WEST.items() if key != "map"}
    lines = [f"{key} = {json.dumps(value)}" for key, value in record.items()]
    lines += ["[map]", 'Geschlecht = { name = "sex", levels = { w = "f", m = "m" } }']
    lines += [
        '"Größe (in)" = { name = "height", factor = 2.54 }',
        f"bili = {{ factor = {1 / 17.1!r}, missing = [-9] }}",
    ]
    (tmp_path / "west.toml").write_text("\n".join(lines), encoding="utf-8")
    parties = [word for name in ("north", "south", "west") for word in ("--party", f"{name}.csv")]
    said = fedsvd("lr", *parties, "--map", "west=west.toml", "--label", "y", "--categories", "sex", "--missing", "drop")
    assert said.code == 0, said.out + said.err
    text = " ".join(said.err.split())
    assert "west: mapped: column 'Größe (in)': called 'height'; times 2.54" in text
    assert "west: mapped: column 'Geschlecht': called 'sex'; 'w' is 'f'; 'm' is 'm'" in text
    assert "north: mapped" not in text
    assert "Your own table: column" in (tmp_path / "results/lr/parties/west/report.html").read_text(encoding="utf-8")
    assert "Geschlecht" not in (tmp_path / "results/lr/parties/north/report.html").read_text(encoding="utf-8")
    model = load("results/lr/parties/west")
    text = (tmp_path / "west.csv").read_text(encoding="latin-1").splitlines(keepends=True)
    (tmp_path / "new.csv").write_text("".join([text[0], *text[4:]]), encoding="latin-1")  # rows without a gap
    new = model.predict("new.csv")
    whole = joint.drop(index=joint.index[160:163])
    reference = whole["sex"].mode()[0]
    fitted = smf.ols(f"y ~ C(sex, Treatment('{reference}')) + height + bili", whole).fit()
    assert_close(new, fitted.predict(joint[163:]).to_numpy(), RESULT_BAR)
