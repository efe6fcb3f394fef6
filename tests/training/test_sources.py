"""Several folders in one training: each with its weight, ids of their own, groups apart or shared."""

from pathlib import Path

import pytest

from handlens.challenges.lesions.options import LesionsSettings
from handlens.errors import DataError, HandlensError
from handlens.training.sources import MoreFolder, Pool, Source, list_sources, pool
from handlens.types import Case, Truth


def folder_of(path):
    path.mkdir(parents=True)
    return path


def truths(**cases):
    """A function that opens a folder by its name: ids, each with a group and a label."""

    def open_truth(folder):
        known = {id: (group, label) for id, group, label in cases[folder.name]}
        return Truth(
            tuple(Case(id, folder / id, group=group) for id, (group, _) in known.items()), lambda c: known[c.id][1]
        )

    return open_truth


def test_a_folder_may_have_a_weight_and_a_licence(tmp_path):
    whole = MoreFolder(f"{tmp_path}=2.5,CC-BY-4.0")
    assert (whole.folder, whole.weight, whole.licence) == (tmp_path, 2.5, "CC-BY-4.0")
    assert MoreFolder(str(whole)) == whole
    assert MoreFolder(f"{tmp_path}").weight == 1
    assert (MoreFolder(f"{tmp_path}=,CC0-1.0").weight, MoreFolder(f"{tmp_path}=,CC0-1.0").licence) == (1, "CC0-1.0")
    odd = folder_of(tmp_path / "a=3")
    assert (MoreFolder(str(odd)).folder, MoreFolder(str(odd)).weight) == (odd, 1)


@pytest.mark.parametrize("weight", ["0", "-1", "nan", "inf", "heavy", "1e9"])
def test_a_weight_that_is_none_is_refused(weight):
    with pytest.raises(HandlensError, match=r"expected FOLDER, or FOLDER=WEIGHT with a number above 0"):
        MoreFolder(f"/nowhere={weight}")


def test_settings_keep_whole_paths_and_travel_as_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = LesionsSettings.parse({"more": ("here=2", "there")})
    assert [each.folder for each in settings.more] == [tmp_path / "here", tmp_path / "there"]
    assert LesionsSettings.parse(settings.plain()) == settings


def test_sources_are_named_by_their_folders_and_none_counts_twice(tmp_path):
    first, other, inner = (folder_of(tmp_path / name) for name in ("a/data", "b/data", "a/data/deep"))
    found = list_sources(first, [MoreFolder(f"{other}=3,MIT")], licence="CC0-1.0")
    assert [(each.name, each.weight, each.licence) for each in found] == [("data", 1, "CC0-1.0"), ("data-2", 3, "MIT")]
    for bad in (first, inner):
        with pytest.raises(DataError, match=r"no example may count twice"):
            list_sources(first, [MoreFolder(str(bad))])
    with pytest.raises(DataError, match="no such folder"):
        list_sources(first, [MoreFolder(str(tmp_path / "absent"))])


def test_cases_of_other_folders_have_ids_and_groups_of_their_own():
    sources = (Source(Path("/x/one"), "one"), Source(Path("/x/two"), "two"))
    open_truth = truths(one=[("1", "g", "A"), ("2", "", "B")], two=[("1", "g", "C")])
    apart = pool(sources, open_truth)
    assert [case.id for case in apart.truth.cases] == ["1", "2", "two/1"]
    assert [case.group for case in apart.truth.cases] == ["g", "2", "two/g"]
    assert [apart.truth.read(case) for case in apart.truth.cases] == ["A", "B", "C"]
    assert [case.group for case in pool(sources, open_truth, same_groups=True).truth.cases] == ["g", "2", "g"]
    assert [(each["name"], each["cases"]) for each in apart.described()] == [("one", 2), ("two", 1)]


def test_sources_are_drawn_as_their_weights_say_whatever_their_size():
    sources = tuple(Source(Path(name), name, weight) for name, weight in (("a", 1.0), ("b", 0.5), ("c", 2.0)))
    pooled = Pool(sources, Truth((), lambda _: ""), (0, 0, 0, 0, 1, 2, 2))
    assert pooled.draws() == pytest.approx([1, 1, 1, 1, 2, 4, 4])
    own = (1.0, 2.0, 1.0, 4.0, 7.0, 1.0, 3.0)
    drawn = pooled.draws(own)
    assert drawn[:4] == own[:4]
    assert [sum(drawn[4:5]), sum(drawn[5:])] == pytest.approx([4, 16])
    assert drawn[6] == pytest.approx(3 * drawn[5])
