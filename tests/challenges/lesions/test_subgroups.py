"""The card's tables count right."""

from handlens.challenges.lesions import score, subgroups
from handlens.challenges.lesions.options import LesionsSettings
from handlens.challenges.lesions.taxonomy import TAXONOMIES
from handlens.types import Case, Truth

TEN = TAXONOMIES["ten"]
SETTINGS = LesionsSettings()


def test_classes_and_people():
    people = [("m", 30.0, 5), ("f", 49.0, 5), ("f", 85.0, None), (None, None, 1)]
    cases = tuple(
        Case(f"{n}", path=None, details={"age": age, "gender": sex, "location": site})
        for n, (sex, age, site) in enumerate(people)
    )
    labels = dict(zip("0123", ("MEL", "MEL", "NV", "BCC"), strict=True))
    said = dict(zip("0123", ("MEL", "NV", "NV", "MEL"), strict=True))
    truth = Truth(cases, lambda case: labels[case.id])
    answers = {id: score.perfect(label, None, SETTINGS) for id, label in said.items()}
    result = score.score(answers, truth, SETTINGS)
    lines = subgroups.tables(result, cases, TEN, {"skin tone": {"0": "dark"}, "kind": {}})
    rows = {
        line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]] for line in lines if "|" in line
    }
    assert rows["MEL"] == ["2", "2", "0.500", "NV 1"]
    assert rows["DF"] == ["0", "0", "0.000", "-"]
    assert rows["all"][:2] == ["4", "0.500"]
    assert rows["all"][-1] == "0.667 of 3"
    assert rows["sex f"][:2] == ["2", "0.500"]
    assert rows["age 30 to 49"][-1] == "0.500 of 2"
    assert rows["age 80 to 120"][-1] == "-"
    assert {"sex unknown", "age unknown", "site unknown", "site head", "skin tone dark", "skin tone unknown"} <= set(
        rows
    )
    assert not any(name.startswith("kind") for name in rows)


def test_calibration_compares_what_is_said_with_what_is_true():
    sure = {"a": 0.95, "b": 0.95, "c": 0.55, "d": 0.55}
    right = {"a": True, "b": False, "c": True, "d": False}
    lines = subgroups.calibration(sure, right)
    assert "Expected calibration error: 0.250" in "\n".join(lines)
    assert "| 0.5 to 0.6 | 2 | 0.550 | 0.500 |" in lines
    assert "| 0.9 to 1.0 | 2 | 0.950 | 0.500 |" in lines
    assert subgroups.calibration({}, {}) == []
