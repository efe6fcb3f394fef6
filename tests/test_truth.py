"""Which labels belong to which cases: `find_truth` is the one place that chooses, for score, solve and judge alike."""

import shutil

import pytest

from handlens import pipeline, registry
from handlens.errors import DataError

NEW_NAMES = {",AK,": ",AKIEC,", ",SK,": ",BKL,", ",SCC,": ",SCCKA,", ",NON,": ",INF,", ",ON,": ",BEN_OTH,"}


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """A data folder of every challenge, with the test part's labels under truth/."""
    folder = tmp_path_factory.mktemp("samples")
    for name, size in (("forgery", 64), ("ink", 64), ("cells", 64), ("lesions", 64)):
        pipeline.sample(registry.challenge(name), folder / name, seed=1, cases=2, size=size)
    return folder


def labels_beside_the_test_cases(name, folder):
    """Move the labels of truth/ to where the test cases lie."""
    for path in sorted((folder / "truth").rglob("*")):
        target = folder / "test" / path.relative_to(folder / "truth")
        if path.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    shutil.rmtree(folder / "truth")


def find(name, folder, part=None, **options):
    challenge = registry.challenge(name)
    return pipeline.find_truth(challenge, folder, challenge.settings(**options), part)


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_truth_of_the_test_part_lies_under_truth(samples, name):
    for part in (None, "test"):
        assert find(name, samples / name, part) == samples / name / "truth"
    assert find(name, samples / name, "train") == samples / name
    assert find(name, samples / name / "truth") == samples / name / "truth"


@pytest.mark.parametrize("name", ["ink", "cells", "lesions"])
def test_labels_beside_the_test_cases_are_found(samples, tmp_path, name):
    challenge, data = registry.challenge(name), tmp_path / "data"
    shutil.copytree(samples / name, data)
    labels_beside_the_test_cases(name, data)
    for part in (None, "test"):
        assert find(name, data, part) == data / "test"
    settings = challenge.settings()
    cases = {case.id for case in pipeline.read_cases(challenge, data)}
    truth = pipeline.open_truth(challenge, data, settings)
    assert {case.id for case in truth.cases} == cases
    assert [case.id for case in pipeline.join_truth(challenge, data, settings, None).cases] == [
        case.id for case in pipeline.read_cases(challenge, data)
    ]
    solved = pipeline.solve(challenge, data, tmp_path / "out")
    assert solved.score is not None
    assert pipeline.score(challenge, solved.submission, data, settings) == solved.score
    before = pipeline.score(challenge, solved.submission, samples / name, settings)
    assert before.value == solved.score.value


def test_labels_beside_the_test_cases_may_be_of_another_taxonomy(samples, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(samples / "lesions", data)
    labels_beside_the_test_cases("lesions", data)
    file = data / "test" / "labels.csv"
    text = file.read_text()
    for old, new in NEW_NAMES.items():
        text = text.replace(old, new)
    rows = text.splitlines()
    label = rows[0].split(",").index("label")
    given = [row.split(",") for row in rows[1:]]
    file.write_text("\n".join([rows[0], *(",".join([*r[:label], "BEN_OTH", *r[label + 1 :]]) for r in given)]) + "\n")
    assert find("lesions", data, "test", taxonomy="eleven") == data / "test"
    assert find("lesions", data, "test", taxonomy="ten") is None


def test_labels_of_only_some_test_cases_are_no_truth(samples, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(samples / "cells", data)
    labels_beside_the_test_cases("cells", data)
    next((data / "test" / "mask").iterdir()).unlink()
    assert find("cells", data, "test") is None
    with pytest.raises(DataError, match="no truth/ for its test part"):
        pipeline.open_truth(registry.challenge("cells"), data, registry.challenge("cells").settings(), "test")


def test_training_labels_are_never_taken_for_those_of_the_test_part(samples, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(samples / "cells", data)
    shutil.rmtree(data / "truth")
    assert find("cells", data, "test") is None
    with pytest.raises(DataError, match="if the answers are about the training part, say --part train"):
        find("cells", data)
    assert find("cells", data, "train") == data
    shutil.rmtree(data / "test")
    assert find("cells", data) == data
    assert find("cells", data / "train") == data / "train"


def test_a_file_is_its_own_truth_and_what_is_missing_is_said(samples, tmp_path):
    (tmp_path / "truth.csv").write_text("img,pixels\n0,1 4\n")
    assert find("cells", tmp_path / "truth.csv") == tmp_path / "truth.csv"
    with pytest.raises(DataError, match="no such file or folder"):
        find("cells", tmp_path / "none")


def test_cases_and_labels_must_be_about_the_same(samples, tmp_path):
    challenge, data = registry.challenge("cells"), tmp_path / "data"
    shutil.copytree(samples / "cells", data)
    (data / "truth" / "mask" / "01.png").rename(data / "truth" / "mask" / "07.png")
    what = r"1 case without a label \(first: 1\), 1 label without a case \(first: 7\): add the labels under truth/"
    with pytest.raises(DataError, match=what):
        pipeline.join_truth(challenge, data, challenge.settings(), None)
