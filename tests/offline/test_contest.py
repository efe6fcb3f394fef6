import shutil
from dataclasses import replace

import pytest

from handlens import pipeline, registry
from handlens.errors import DataError, HandlensError
from handlens.offline.contest import find_data, find_run, held_out, model_of, pick_up, working_folder


@pytest.fixture(scope="module")
def mount(tmp_path_factory):
    """As /kaggle/input: data, and beside it something else."""
    folder = tmp_path_factory.mktemp("input")
    pipeline.sample(registry.challenge("cells"), folder / "cells-contest", seed=1, cases=3, size=96)
    (folder / "other").mkdir()
    (folder / "other" / "notes.txt").write_text("nothing")
    return folder


def test_data_is_found_in_the_mount_or_taken_as_given(mount, tmp_path):
    assert find_data("cells", mounts=[mount]) == mount / "cells-contest"
    assert find_data("cells", mount / "cells-contest", mounts=[tmp_path]) == mount / "cells-contest"
    with pytest.raises(HandlensError, match="no data of cells below"):
        find_data("cells", mounts=[tmp_path])
    with pytest.raises(DataError, match="no such folder"):
        find_data("cells", tmp_path / "nowhere")


def test_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert working_folder() == tmp_path
    assert working_folder(tmp_path / "new").is_dir()


@pytest.mark.slow
def test_a_score_on_cases_that_the_model_has_not_seen(mount):
    found = held_out("cells", mount / "cells-contest", most=2)
    assert found.score is not None
    assert len(found.cases) == 2
    assert found.score.value > 0.5
    assert "has not seen" in str(found)


def test_without_labelled_cases_there_is_no_score(tmp_path, mount):
    shutil.copytree(mount / "cells-contest" / "test", tmp_path / "data" / "test")
    assert held_out("cells", tmp_path / "data").score is None


@pytest.mark.slow
def test_checkpoints_of_an_earlier_run_are_picked_up_with_a_copy_of_the_data(mount, tmp_path, monkeypatch):
    """Stopped half way, attached with a copy of the data whose times differ, and resumed: the same model in the end."""
    import tiny_training

    from handlens.training import loop

    monkeypatch.setattr(loop, "SAVE_SECONDS", 0.0)
    challenge = replace(registry.challenge("cells"), train=tiny_training.train_challenge)
    settings = challenge.settings(folds=2)
    data = mount / "cells-contest"
    take, steps = loop.Stepper.take, []

    def counted(self, *args, **options):
        steps.append(self.stage.name)
        return take(self, *args, **options)

    monkeypatch.setattr(loop.Stepper, "take", counted)
    pipeline.train(challenge, data, tmp_path / "whole", settings=settings)
    all_steps = len(steps)

    def stop_half_way(done, total, words=""):
        if len(steps) > 1.5 * all_steps:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pipeline.train(challenge, data, tmp_path / "attached" / "earlier", settings=settings, progress=stop_half_way)
    elsewhere = shutil.copytree(data, tmp_path / "elsewhere", copy_function=shutil.copy)  # without times
    assert find_run("cells", finished=True, mounts=[tmp_path / "attached"]) is None
    earlier = find_run("cells", finished=False, mounts=[tmp_path / "attached"])
    run = pick_up(earlier, tmp_path / "run", elsewhere)
    name, folder, kept = pipeline.read_training(run)
    assert (name, folder) == ("cells", elsewhere)
    steps.clear()
    pipeline.train(challenge, folder, run, settings=challenge.settings(**kept))
    assert 0 < len(steps) < 0.8 * all_steps  # it did not begin anew
    assert (run / "model.onnx").read_bytes() == (tmp_path / "whole" / "model.onnx").read_bytes()
    assert model_of("cells", None, mounts=[], run=run) == run


def test_a_training_on_other_data_is_not_picked_up(tmp_path, mount):
    def stopped(folder, run, settings, progress):
        (run / "unfinished").mkdir(exist_ok=True)
        (run / "unfinished" / "weights").write_text("1")
        raise KeyboardInterrupt

    challenge = replace(registry.challenge("cells"), train=stopped)
    with pytest.raises(KeyboardInterrupt):
        pipeline.train(challenge, mount / "cells-contest", tmp_path / "run")
    other = shutil.copytree(mount / "cells-contest", tmp_path / "other")
    (other / "train" / "im" / "00.png").write_bytes(b"other")
    with pytest.raises(DataError, match="other files"):
        pick_up(tmp_path / "run", tmp_path / "copy", other)
