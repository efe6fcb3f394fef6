"""Training ink: from synthetic fragments to a model that solves without torch; the score is honest."""

import json
import shutil
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")

import torch
from tiny_training import CaughtFiles
from torch.nn import functional

from handlens import pipeline, registry
from handlens.challenges.ink.dataset import cut_apart, make_item
from handlens.challenges.ink.decision import LEVELS, InkDecision
from handlens.challenges.ink.network import DepthConv, DepthNet, SliceNet, start_from
from handlens.challenges.ink.options import SCHEDULE, InkAugmentation, InkSettings, InkTraining
from handlens.challenges.ink.predictor import FEW_WEIGHT, as_fragment, load
from handlens.challenges.ink.training import f_half_at_levels, make_task, measure
from handlens.challenges.ink.window import Window
from handlens.errors import DataError, HandlensError, ModelError
from handlens.inference.model import digest, open_model, write_trained_on
from handlens.io.images import write_png
from handlens.masks.metrics import compare, fbeta
from handlens.masks.rle import encode
from handlens.runstore.plan import read_plan
from handlens.splits import fold_of
from handlens.training import engine
from handlens.training.export import export
from handlens.training.sources import MoreFolder, list_sources
from handlens.types import Case, Context, no_progress

pytestmark = pytest.mark.slow


SETTINGS = InkSettings()
SMALL = InkTraining(below=6, above=5, crop=64, turns=1, augmentation=InkAugmentation(shift=1))
STILL = InkAugmentation(shift=0, zoom=1, mix_share=0, few_share=0, contrast=0, brightness=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ink") / "data"
    settings = registry.challenge("ink").settings(slices=12, width=110)
    pipeline.sample(registry.challenge("ink"), folder, seed=4, cases=2, size=130, settings=settings)
    return folder


@pytest.fixture(scope="module")
def task(folder, tmp_path_factory):
    return make_task(list_sources(folder, ()), SMALL, SETTINGS, tmp_path_factory.mktemp("windows"), 2)


def test_from_a_folder_to_an_answer(folder, tmp_path):
    ink = registry.challenge("ink")
    changes = {"crop": "64", "batch": "2", "turns": "1", "steps": "2", "threads": "1", "below": "6", "above": "5"}
    settings = ink.settings(minutes=1, set=changes)
    numbers = pipeline.train(ink, folder, tmp_path / "run", settings=settings)
    assert "F0.5, out of fold" in numbers
    page = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert (page["folds"], page["finished"], list(page["scores"])) == (2, True, ["1", "2"])  # not 5: two fragments
    assert set(page["decision"]) == {"threshold", "adaptive", "smallest", "turns", "few"}
    assert page["difference"] < 1e-4
    assert not (tmp_path / "run" / "windows").exists()
    solved = pipeline.solve(ink, folder, tmp_path / "out", model=tmp_path / "run")
    assert solved.score is not None


def test_three_directions_are_done_as_two():
    block = DepthConv(4, 6, kernel=3, stride=2, skip=2)
    features = torch.randn(9, 2, 4, 12, 16)
    flat = block.convolution.weight.reshape(6, 3, 4, 3, 3).transpose(1, 2)
    expected = functional.conv3d(features.permute(1, 2, 0, 3, 4), flat, stride=(2, 2, 2), padding=(0, 1, 1))
    block.norm = torch.nn.Identity()
    found, layers = block(features.flatten(0, 1), 9)
    assert layers == 4
    assert torch.allclose(found.reshape(4, 2, 6, 6, 8).permute(1, 2, 0, 3, 4), expected.relu(), atol=1e-5)


def test_the_network_is_small():
    network = DepthNet(19).eval()
    assert sum(weights.numel() for weights in network.parameters()) < 2_000_000
    window = torch.randint(0, 256, (2, 19, 64, 96), dtype=torch.uint8)
    with torch.inference_mode():
        answer = network(window)
        assert answer.shape == (2, 16, 24)
        assert torch.allclose(network(window[1:])[0], answer[1], atol=1e-4)


def test_items(task, tmp_path):
    item = task.make_item(np.random.default_rng(0), 0)
    assert {name: (values.shape, values.dtype.name) for name, values in item.items()} == {
        "window": ((11, 64, 64), "uint8"),
        "ink": ((16, 16), "float32"),
        "weight": ((16, 16), "float32"),
    }
    again = task.make_item(np.random.default_rng(0), 0)
    assert all(np.array_equal(item[name], again[name]) for name in item)
    items = [task.make_item(np.random.default_rng(seed), 1) for seed in range(30)]
    assert max(each["ink"].max() for each in items) > 0.9
    assert all(each["weight"].mean() > 0.1 for each in items)


def test_a_crop_without_changes_is_the_fragment(task):
    part = task.make_item.__self__.parts[0]
    item = make_item(np.random.default_rng(3), part, Window(6, 5, "last", 1), 64, STILL)
    found = any(
        np.array_equal(item["window"][4], np.rot90(view[top : top + 64, left : left + 64], turn))
        for view in (np.asarray(part.window[5]), np.asarray(part.window[5])[:, ::-1])
        for turn in range(4)
        for top in range(part.mask.shape[0] - 63)
        for left in range(part.mask.shape[1] - 63)
    )
    assert found


@pytest.mark.parametrize(
    "kind", [{"mix_share": 1.0}, {"zoom": 2.0}, {"shift": 1}, {"few_share": 1.0}, {"contrast": 0.5, "brightness": 30}]
)
def test_changes_change(task, kind):
    part = task.make_item.__self__.parts[0]
    window = Window(6, 5, "last", 1)
    many = [
        [make_item(np.random.default_rng(seed), part, window, 64, STILL.replace(**more)) for seed in range(8)]
        for more in ({}, kind)
    ]
    same = [np.array_equal(one["window"], other["window"]) for one, other in zip(*many, strict=True)]
    assert not all(same)
    for item in many[1]:
        assert 0 <= item["ink"].min() <= item["ink"].max() <= 1 + 1e-5


def test_a_single_fragment_is_cut_into_separated_parts(folder, tmp_path):
    task = make_task(list_sources(folder / "train" / "1", ()), SMALL, SETTINGS, tmp_path, 3)
    assert task.ids == tuple(f"1 part {number}" for number in (1, 2, 3))
    assert len(set(task.groups)) == 3
    places = cut_apart((130, 110), 3)
    assert [each.stop - each.start for each, _ in places] == [38, 38, 38]
    assert all(after.start - before.stop >= 7 for (before, _), (after, _) in pairwise(places))
    assert cut_apart((10, 100), 2) == [(slice(None), slice(0, 47)), (slice(None), slice(53, 100))]
    perfect = {part.id: part.label for part in task.make_item.__self__.parts}
    assert task.score(perfect).value == pytest.approx(np.mean([bool(len(runs.starts)) for runs in perfect.values()]))


def test_the_best_decision_is_found(task):
    parts = task.make_item.__self__.parts
    predictions = {}
    for index, part in enumerate(parts):
        share = np.pad(part.ink, [(0, -side % 4) for side in part.ink.shape]).astype(np.float32)
        share = share.reshape(share.shape[0] // 4, 4, -1, 4).mean(axis=(1, 3))
        predictions[index] = (0.2 + 0.4 * share).astype(np.float32)[None]
    decision = task.decide((0, 1), predictions)
    assert 0.3 < decision.threshold < 0.5
    answers = {id: task.answer(index, predictions[index], decision) for index, id in enumerate(task.ids)}
    assert task.score(answers).value > 0.93


def test_a_threshold_that_costs_nothing_is_low(task):
    """Ink has 0.9 everywhere, the rest 0.1: every threshold between is as good, so that scans with less ink count."""
    predictions = {}
    for index, part in enumerate(task.make_item.__self__.parts):
        squares = np.pad(part.ink, [(0, -side % 4) for side in part.ink.shape]).astype(np.float32)
        share = squares.reshape(squares.shape[0] // 4, 4, -1, 4).mean(axis=(1, 3))
        predictions[index] = np.where(share > 0.5, 0.9, 0.1).astype(np.float32)[None]
    assert 0.1 < task.decide((0, 1), predictions).threshold < 0.45


def test_folders_count_in_the_decision_as_they_are_drawn(folder, tmp_path):
    """Ink of the first folder has 0.9 and the rest 0.5; of the other 0.4 and 0.1, so that its threshold is lower."""
    other = tmp_path / "other"
    shutil.copytree(folder / "train", other / "train")
    thresholds = []
    for weight in (0.01, 100):
        sources = list_sources(folder, [MoreFolder(f"{other}={weight}")])
        task = make_task(sources, SMALL, SETTINGS, tmp_path / str(weight), 2)
        predictions = {}
        for index, part in enumerate(task.make_item.__self__.parts):
            squares = np.pad(part.ink, [(0, -side % 4) for side in part.ink.shape]).astype(np.float32)
            share = squares.reshape(squares.shape[0] // 4, 4, -1, 4).mean(axis=(1, 3))
            high, low = (0.4, 0.1) if part.source else (0.9, 0.5)
            predictions[index] = np.where(share > 0.5, high, low).astype(np.float32)[None]
        thresholds.append(task.decide(tuple(predictions), predictions).threshold)
    assert thresholds[0] > 0.5 > 0.4 > thresholds[1]


def test_f_half_of_levels_is_that_of_pixels(task):
    part = task.make_item.__self__.parts[0]
    coarse = np.random.default_rng(0).random([-(-side // 4) for side in part.mask.shape]).astype(np.float32)
    found = f_half_at_levels(coarse, part)
    for level in (1, 300, 900):
        answer = task.answer(0, coarse[None], InkDecision(threshold=level / LEVELS))
        value = fbeta(compare(answer, encode(part.ink > 0, order="rows")), beta=0.5, empty=0)
        assert found[level - 1] == pytest.approx(value, abs=2e-3)


def test_the_quick_measure():
    truth = torch.tensor([[[1.0, 1.0, 0.0, 0.2]]])
    assert measure(torch.tensor([[[3.0, -1.0, -1.0, -1.0]]]), {"ink": truth}) == pytest.approx(1.25 / (1 + 0.25 * 2))
    assert measure(-torch.ones(1, 1, 4), {"ink": torch.zeros(1, 1, 4)}) == 0


def test_predictions_are_of_the_whole_part(task, tmp_path):
    export(task.graph(task.make_network().eval()), tmp_path / "model.onnx", facts={})
    answer = task.infer(tmp_path / "model.onnx")(0)
    assert (answer.shape, answer.dtype) == ((2, 33, 28), np.float32)  # all slices, and a few of them
    assert not np.array_equal(answer[0], answer[1])
    assert 0 <= answer.min() < answer.max() <= 1


def test_what_is_fitted_is_what_ships(tmp_path):
    """Every out-of-fold answer is what a predictor of that fold's file and decision says about the fragment's folder.

    Fragments have several tiles, bands and regions of the surface; training keeps spare layers about the window.
    """
    ink, data = registry.challenge("ink"), tmp_path / "data"
    pipeline.sample(ink, data, seed=8, cases=2, size=420, settings=InkSettings(slices=30, width=350))
    fields = SMALL.replace(turns=4, width=0.25, augmentation=InkAugmentation(shift=2))
    caught = CaughtFiles(
        make_task(list_sources(data, ()), fields, SETTINGS, tmp_path / "windows", 2), tmp_path / "files"
    )
    schedule = SCHEDULE.replace(steps=8, batch=2, threads=1, accelerator="cpu", memory_format="channels_last")
    engine.train(caught.make_task, schedule, InkSettings(folds=2), tmp_path / "run", no_progress)
    plan, cases = read_plan(tmp_path / "run"), caught.task.cases
    assert set(caught.answers) == {case.id for case in cases}
    assert all(answer.area > 0 for answer in caught.answers.values())
    assert len({file.read_bytes() for file in caught.file_of.values()}) == len(cases) == 2
    for index, case in enumerate(cases):
        predictor = load(Context(SETTINGS, model=caught.write_model(index, plan, tmp_path / f"model{index}")))
        with predictor.decode(case) as fragment:
            answer = predictor.predict(fragment).answer
        assert np.array_equal(answer.starts, caught.answers[case.id].starts)
        assert np.array_equal(answer.lengths, caught.answers[case.id].lengths)
    included = load(Context(SETTINGS, model=tmp_path / "run"))
    assert included.decision.plain() == plan.results["decision"]
    assert (included.resources.turns, included.window.layers) == (4, 11)
    assert included.model.trained_on == {digest(case) for case in cases}


def test_windows_are_made_once(folder, tmp_path, monkeypatch):
    from handlens.challenges.ink.window import Surface

    make_task(list_sources(folder, ()), SMALL, SETTINGS, tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.npy", "1.npy"]
    monkeypatch.setattr(Surface, "read", None)
    make_task(list_sources(folder, ()), SMALL, SETTINGS, tmp_path, 2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"crop": "70"}, "crop is '70'; expected a multiple of 32"),
        ({"crop": "32"}, "crop is '32'; expected a multiple of 32 of at least 64"),
        ({"turns": "8"}, "turns is '8'; expected one of 1, 4"),
        ({"below": "2", "above": "3"}, "5 layers; the network takes 11 or more"),
        ({"side": "up"}, "side is 'up'; expected one of first, last"),
        ({"shift": "40"}, r"augmentation\.shift is '40'; expected a whole number from 0 to 16"),
        ({"augmentation.zoom": "0.5"}, r"augmentation\.zoom is '0\.5'; expected a number from 1 to 4"),
    ],
)
def test_odd_fields_are_refused(given, words):
    with pytest.raises(HandlensError, match=words):
        engine.split_fields(InkTraining(), SCHEDULE, given)


def test_fragments_without_ink_are_refused(folder, tmp_path):
    import shutil

    place = shutil.copytree(folder / "train" / "1", tmp_path / "1")
    write_png(place / "inklabels.png", np.zeros((130, 110), bool))
    with pytest.raises(DataError, match="no ink in any label"):
        make_task(list_sources(place, ()), SMALL, SETTINGS, tmp_path / "cache", 2)


def test_the_truth_of_parts(task):
    truth = task.make_item.__self__.truth()
    assert [case.id for case in truth.cases] == ["1", "2"]
    assert isinstance(truth.cases[0], Case)


def test_folds_are_even_in_the_number_of_slices(folder, tmp_path):
    """A fold whose kind of stack no other fold has is predicted by a network that never saw one."""
    other = tmp_path / "thin"
    pipeline.sample(
        registry.challenge("ink"), other, seed=5, cases=2, size=130, settings=InkSettings(slices=3, width=110)
    )
    sources = list_sources(folder, (MoreFolder(f"{other}=3"),))
    task = make_task(sources, SMALL, SETTINGS, tmp_path / "windows", 2)
    assert task.ids == ("1", "2", "thin/1", "thin/2")
    assert len(set(task.strata)) == 2
    folds = fold_of(task.groups, folds=2, seed=0, strata=task.strata)
    assert folds[0] != folds[1]
    assert folds[2] != folds[3]
    assert sum(task.weights[2:]) == pytest.approx(3 * sum(task.weights[:2]))
    assert [source["name"] for source in task.sources] == [folder.name, "thin"]
    export(task.graph(task.make_network().eval()), tmp_path / "model.onnx", facts={})
    assert [len(task.infer(tmp_path / "model.onnx")(index)) for index in (0, 2)] == [2, 1]


def test_few_slices_have_a_decision_of_their_own(task):
    """Whole stacks are answered with 0.6 where ink is, three slices of them with 0.3."""
    predictions = {}
    for index, part in enumerate(task.make_item.__self__.parts):
        squares = np.pad(part.ink, [(0, -side % 4) for side in part.ink.shape]).astype(np.float32)
        share = squares.reshape(squares.shape[0] // 4, 4, -1, 4).mean(axis=(1, 3))
        predictions[index] = np.stack([0.4 + 0.2 * share, 0.1 + 0.2 * share]).astype(np.float32)
    decision = task.decide((0, 1), predictions)
    assert 0.4 < decision.threshold < 0.6
    assert 0.1 < decision.few.threshold < 0.3
    assert decision.for_slices(24) is decision
    assert decision.for_slices(1) is decision.few
    assert InkDecision.parse(decision.plain()) == decision


@pytest.mark.parametrize(("ink", "other", "expected"), [(0.9, 0.1, True), (0.28, 0.1, False)])
def test_scans_have_their_own_threshold_where_that_costs_nothing(task, ink, other, expected):
    """Probabilities so low that a scan's own threshold lies above all of them: one is fitted for all."""
    predictions = {}
    for index, part in enumerate(task.make_item.__self__.parts):
        squares = np.pad(part.ink, [(0, -side % 4) for side in part.ink.shape]).astype(np.float32)
        share = squares.reshape(squares.shape[0] // 4, 4, -1, 4).mean(axis=(1, 3))
        predictions[index] = np.stack([other + (ink - other) * (share > 0.5)] * 2).astype(np.float32)
    decision = task.decide((0, 1), predictions)
    assert (decision.adaptive, decision.few.adaptive) == (expected, expected)
    parts = task.make_item.__self__.parts
    found = [
        fbeta(compare(task.answer(i, predictions[i], decision), parts[i].label), beta=0.5, empty=0) for i in (0, 1)
    ]
    assert min(found) > 0.9


def test_a_stack_is_decided_about_by_both_networks(folder, tmp_path):
    """A run with `few` answers out of fold with both, holds out nothing that either saw, and is a whole model."""
    ink = registry.challenge("ink")
    changes = {"crop": "64", "batch": "2", "turns": "1", "steps": "2", "threads": "1", "below": "6", "above": "5"}
    alone = tmp_path / "alone"
    pipeline.train(ink, folder, alone, settings=ink.settings(minutes=1, set={**changes, "slices": "few"}))
    other = tmp_path / "other"
    pipeline.sample(ink, other, seed=6, cases=3, size=130, settings=InkSettings(slices=12, width=110))
    fields = SMALL.replace(few=str(alone))
    more = (MoreFolder(str(folder)),)
    task = make_task(list_sources(other, more), fields, SETTINGS, tmp_path / "windows", 2)
    assert {task.ids[index] for index in task.seen} == {"data/1", "data/2"}
    run = tmp_path / "run"
    pipeline.train(ink, other, run, settings=ink.settings(minutes=1, folds=3, set={**changes, "few": str(alone)}))
    assert (run / "few" / "model.onnx").read_bytes() == (alone / "model.onnx").read_bytes()
    predictor = load(Context(SETTINGS, model=run))
    assert predictor.few is not None
    with predictor.decode(task.cases[0]) as fragment:
        both = predictor.predict(fragment).artefacts["map"]
    np.testing.assert_allclose(task.infer(run / "model.onnx")(0)[0], both, atol=1e-6)
    with pytest.raises(HandlensError, match="few names the network beside one for whole stacks"):
        SMALL.replace(few="x", slices="few")


def test_a_network_for_few_slices_lies_within_another_model(folder, task, tmp_path):
    ink, few = registry.challenge("ink"), SMALL.replace(slices="few")
    within = make_task(list_sources(folder, ()), few, SETTINGS, tmp_path / "windows", 2)
    network = within.make_network().eval()
    assert isinstance(network, SliceNet)
    export(within.graph(network), tmp_path / "flat.onnx", facts={})
    assert within.infer(tmp_path / "flat.onnx")(0).shape == (1, 33, 28)  # a few slices only
    changes = {"crop": "64", "batch": "2", "turns": "1", "steps": "2", "threads": "1", "below": "6", "above": "5"}
    run = tmp_path / "run"
    pipeline.train(ink, folder, run, settings=ink.settings(minutes=1, set=changes))
    whole = load(Context(SETTINGS, model=run))
    settings = ink.settings(minutes=1, set={**changes, "slices": "few"})
    pipeline.train(ink, folder, run / "few", settings=settings)
    both, alone = (load(Context(SETTINGS, model=place)) for place in (run, run / "few"))
    assert (whole.few, alone.few) == (None, None)
    array = np.random.default_rng(0).integers(60, 200, (12, 64, 96), np.uint8)

    def ask(predictor, slices):
        return predictor.predict(as_fragment(array[:slices])).artefacts["map"]

    for slices in (1, 7):
        assert np.array_equal(ask(both, slices), ask(alone, slices))
    one, other = ask(whole, 12), ask(alone, 12)
    odds = (one / (1 - one)) ** (1 - FEW_WEIGHT) * (
        other / (1 - other)
    ) ** FEW_WEIGHT  # one turn and one tile: nothing else is averaged
    np.testing.assert_allclose(ask(both, 12), odds / (1 + odds), atol=2e-6)
    case = next(iter(within.cases))
    assert digest(case) in open_model(run, challenge="ink").trained_on


def test_a_network_starts_from_an_exported_one(task, folder, tmp_path):
    torch.manual_seed(0)
    network = task.make_network().train()
    items = torch.from_numpy(np.stack([task.make_item(np.random.default_rng(n), 0)["window"] for n in range(8)]))
    for _ in range(5):
        network(items)  # so that its norms have statistics
    (tmp_path / "start").mkdir()
    export(task.graph(network.eval()), tmp_path / "start" / "model.onnx", facts={})
    plan = {"challenge": "ink", "fields": SMALL.plain()}
    (tmp_path / "start" / "plan.json").write_text(json.dumps(plan))
    fields = SMALL.replace(start=str(tmp_path / "start"))
    again = make_task(list_sources(folder, ()), fields, SETTINGS, tmp_path / "windows", 2)
    fresh = again.make_network().train()
    again.warm_start(fresh, (0, 1))
    with torch.inference_mode():
        expected, found = network(items), fresh.eval()(items)
    assert torch.allclose(found, expected, atol=1e-3)
    assert again.seen == frozenset()
    write_trained_on(tmp_path / "start", again.cases[:1])
    assert make_task(list_sources(folder, ()), fields, SETTINGS, tmp_path / "windows", 2).seen == {0}
    with pytest.raises(ModelError, match="no network of this form"):
        start_from(DepthNet(11, 0.5), tmp_path / "start" / "model.onnx", items)
