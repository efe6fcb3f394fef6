"""How good and how fast the forgery detector is, beside plain SIFT and without its parts: tables with bars.

python bench/forgery.py [--quick] [--part quality|plain|speed|ablation]...
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import handlens
from handlens import pipeline
from handlens.challenges.forgery import data
from handlens.challenges.forgery.detect import SECONDS, Detector, Proposal
from handlens.challenges.forgery.detect.answer import SURE
from handlens.challenges.forgery.detect.findings import Findings
from handlens.challenges.forgery.detect.verifier.decision import FILE, Decision, read_decision
from handlens.challenges.forgery.fitting import score_one
from handlens.challenges.forgery.forger.made import FigureRequest, make_figure, make_lookalike
from handlens.challenges.forgery.forger.sources import Sources, open_sources
from handlens.challenges.forgery.match_labels import label_matches
from handlens.challenges.forgery.predictor import ForgeryPredictor
from handlens.challenges.forgery.score import ORDER
from handlens.inference.executors import map_in_processes
from handlens.io.images import list_images, read_image, write_png
from handlens.masks.rle import Rle, decode, encode
from handlens.progress import bar

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "forgery"
PLAIN = ("nuclei", "other", "twins", "made forged", "look-alike")
"""Groups that plain SIFT is asked about too."""

PARTS = ("quality", "plain", "speed", "ablation")
SIZES = (700, 900, 1100)
SMALL = 350
"""Width in pixels below which a picture is small."""
LARGE = 0.3
"""Megapixels from which a picture is timed with the large ones."""

Picture = np.ndarray


@dataclass(frozen=True, slots=True)
class Question:
    """A picture to look at: a file with its truth, or a made-up figure that is drawn where it is looked at."""

    group: str
    path: Path | None = None
    truth: tuple[Rle, ...] = ()
    number: int = 0
    size: int = 0
    of_sources: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What one method made of a picture: its oF1, whether it said `forged`, how sure it was, CPU seconds."""

    score: float
    said: bool
    probability: float
    seconds: float
    cut: bool = False
    recall: tuple[int, int, int, int] = (0, 0, 0, 0)
    """True instances; of how many a true pair was proposed, was likely by the verifier, and is in the answer."""


@dataclass(frozen=True, slots=True)
class Result:
    """The answers of all methods that were asked about a picture."""

    question: Question
    kind: str
    megapixels: float
    width: int
    answers: Mapping[str, Answer]


Item = tuple[Question, tuple[str, ...]]
"""A picture, and the methods that are asked about it."""


def megapixels(picture: Picture) -> float:
    return picture.shape[0] * picture.shape[1] / 1e6


# --- plain SIFT and RANSAC --------------------------------------------------------------------------------------------


def plain(picture: Picture) -> list[np.ndarray]:
    """Copies as plain OpenCV finds them: a mask for each group of key points that one similarity moves."""
    import cv2

    cv2.setRNGSeed(0)
    grey, factor = enlarged_grey(picture)
    points, descriptors = cv2.SIFT_create(contrastThreshold=0.004).detectAndCompute(grey, None)
    if descriptors is None or len(points) < 3:
        return []
    places = np.array([point.pt for point in points], np.float32)
    pairs = paired(cv2.BFMatcher().knnMatch(descriptors, descriptors, k=3), places)
    masks: list[np.ndarray] = []
    while len(masks) < 3 and len(pairs) >= 8:
        source, target = places[pairs[:, 0]], places[pairs[:, 1]]
        matrix, inside = cv2.estimateAffinePartial2D(source, target, method=cv2.RANSAC, ransacReprojThreshold=3.0)
        if matrix is None or inside.sum() < 8:
            break
        chosen = inside.ravel() > 0
        if matrix[0, 0] < -0.9:  # half a turn brings each region to the other: keep the pairs that go one way
            chosen &= (target - source) @ (target - source)[chosen][0] > 0
        mask = np.zeros(picture.shape[:2], np.uint8)
        for side in (source[chosen], target[chosen]):
            cv2.fillConvexPoly(mask, cv2.convexHull(np.rint(side / factor).astype(np.int32)), 1)
        masks.append(mask > 0)
        used = {tuple(sorted(pair)) for pair in pairs[chosen].tolist()}
        pairs = np.array([pair for pair in pairs.tolist() if tuple(sorted(pair)) not in used]).reshape(-1, 2)
    return masks


def enlarged_grey(picture: Picture) -> tuple[Picture, float]:
    """Grey, its longer side at least 1024 pixels if that is at most four times as large; the factor."""
    import cv2

    grey = picture if picture.ndim == 2 else cv2.cvtColor(np.ascontiguousarray(picture[..., :3]), cv2.COLOR_RGB2GRAY)
    factor = min(4.0, max(1.0, 1024 / max(grey.shape)))
    return cv2.resize(grey, None, fx=factor, fy=factor, interpolation=cv2.INTER_CUBIC), factor


def paired(neighbours: Sequence, places: np.ndarray, *, ratio: float = 0.7, apart: float = 16.0) -> np.ndarray:
    """Key points whose nearest other is much nearer than the next, and some pixels away; each pair in both orders."""
    found = set()
    for own, some in enumerate(neighbours):
        others = [match for match in some if match.trainIdx != own]  # the nearest of all is the key point itself
        if len(others) >= 2 and others[0].distance < ratio * others[1].distance:
            other = others[0].trainIdx
            if np.hypot(*(places[own] - places[other])) >= apart:
                found |= {(own, other), (other, own)}
    return np.array(sorted(found), int).reshape(-1, 2)


# --- looking, in several processes ------------------------------------------------------------------------------------


def detectors(model: Path | None) -> dict[str, Detector]:
    """The detector, and what is left of it when one part is taken away."""
    whole = Detector(decision=read_decision(model / FILE) if model else None).ready()
    return {
        "handlens": whole,
        "without reused panels": replace(whole, panels=None),
        "without key points": replace(whole, keypoints=None),
        "without blots": replace(whole, blots=None),
        "without shifts": replace(whole, shifts=None),
        "without objects": replace(whole, objects=None),
        "dense squares instead of objects": replace(whole, objects=None, blots=replace(whole.blots, across=0.0)),
        "without cutting into panels": replace(whole, splitter=replace(whole.splitter, depth=0)),
    }


def make_asker(model: Path | None, seed: int) -> Callable[[Item], Result]:
    """Once in each process: every method warmed up, on one thread."""
    import cv2

    cv2.setNumThreads(1)
    known = detectors(model)
    noise = np.random.default_rng(0).integers(0, 256, (96, 96, 3)).astype(np.uint8)
    _ = known["handlens"].look(noise), plain(noise)
    return partial(ask, known, read_sources(), seed)


def ask(known: Mapping[str, Detector], sources: Sources | None, seed: int, item: Item) -> Result:
    """The methods' answers to one picture, one after the other, each with its own CPU time."""
    question, methods = item
    picture, truth, kind = see(question, sources, seed)
    answers = {}
    for method in methods:
        started = time.thread_time()
        if method == "plain":
            masks = plain(picture)
            probability, cut = float(bool(masks)), False
        else:
            detector = known[method]
            proposal = detector.propose(picture, SECONDS)
            found = detector.conclude(proposal, detector.decision)
            masks = [group.mask(found.shape) for group in found.groups]
            probability, cut = found.probability, bool(found.cut)
        spent = time.thread_time() - started
        said = tuple(encode(mask, order=ORDER) for mask in masks)
        recall = recall_of(proposal, found, detector.decision, truth) if method != "plain" else (0, 0, 0, 0)
        answers[method] = Answer(score_one(said, truth), bool(said), probability, spent, cut, recall)
    return Result(question, kind, megapixels(picture), picture.shape[1], answers)


def recall_of(
    proposal: Proposal, found: Findings, decision: Decision, truth: Sequence[Rle]
) -> tuple[int, int, int, int]:
    """Of how many true instances a true pair is left after each step."""
    masks = [decode(each, found.shape, order=ORDER) for each in truth]
    likely = [match for match in proposal.matches if decision.verifier.probability(match) >= SURE]
    steps = [[proposal.canvas.scaling.match_to_figure(match) for match in some] for some in (proposal.matches, likely)]
    steps.append([match for group in found.groups for match in group.matches])
    left = [len({label for label in label_matches(some, masks) if label >= 0}) for some in steps]
    return len(truth), left[0], left[1], left[2]


def see(question: Question, sources: Sources | None, seed: int) -> tuple[Picture, tuple[Rle, ...], str]:
    """The picture of a question, its true instances, and what kind it is."""
    if question.path:
        return read_image(question.path), question.truth, ""
    if question.group == "drawn":
        from drawn_figures import draw_figure

        picture, kind = draw_figure(seed, question.number, photographs(sources))
        return picture, (), kind
    if question.group == "drawn elsewhere":
        from drawn_elsewhere import draw_other_figure

        picture, kind = draw_other_figure(seed, question.number)
        return picture, (), kind
    if question.group == "gel":
        wanted = FigureRequest(size=question.size, plan="gel", compound=question.number % 3 == 2)
        return make_lookalike(seed, question.number, wanted).forged, (), ""
    sources = sources if question.of_sources else None
    wanted = FigureRequest(size=question.size, sources=sources, compound=True)
    if question.group == "made cut-outs":
        wanted = replace(wanted, compound=False, plan="cut-out")
    make = make_lookalike if question.group == "look-alike" else make_figure
    made = make(seed, question.number, wanted)
    return made.forged, tuple(encode(mask, order=ORDER) for mask in made.masks), made.kind


@cache
def photographs(sources: Sources | None) -> tuple[Picture, ...]:
    """A few clean sources, to stand beside drawn figures."""
    return tuple(read_image(entry.picture)[..., :3] for entry in (sources.pictures[::8] if sources else ()))


def read_sources() -> Sources | None:
    return open_sources(SHARED / "sources") if (SHARED / "sources").is_dir() else None


def list_questions(figures: int) -> Iterator[Question]:
    """What is there of the real images and the clean sources, then compound figures, half of them forged.

    A real forged image without an authentic twin is of the group `other`. Every second figure shows clean sources.
    """
    if (SHARED / "real").is_dir():
        truth, groups = data.open_truth(SHARED / "real", {}), {"forged": "nuclei", "authentic": "twins"}
        for case in truth.cases:
            yield Question(groups.get(case.id.split("/")[0], "other"), case.path, tuple(truth.read(case)))
    sources = read_sources()
    for entry in sources.pictures if sources else ():
        yield Question("sources", entry.picture)
    for group in ("figures", "blots"):
        for path in list_images(SHARED / group) if (SHARED / group).is_dir() else ():
            yield Question(group, path)
    for group, count in (("made forged", figures - figures // 2), ("look-alike", figures // 2)):
        for number in range(count):
            yield Question(group, None, (), number, SIZES[number % 3], bool(sources) and number % 2 == 1)
    for number in range(figures // 2 if sources else 0):  # of the sources that the verifier was fitted to
        yield Question("made cut-outs", None, (), number, SIZES[0], of_sources=True)
    for group in ("gel", "drawn", "drawn elsewhere") if find_spec("matplotlib") else ("gel", "drawn elsewhere"):
        for number in range(figures // 2):
            yield Question(group, None, (), number, SIZES[number % 3])


def thinned(questions: Sequence[Question], most: int) -> list[Question]:
    """At most so many of each group, spread evenly."""
    found: list[Question] = []
    for group in dict.fromkeys(question.group for question in questions):
        some = [question for question in questions if question.group == group]
        found += [some[index * len(some) // most] for index in range(most)] if len(some) > most else some
    return found


# --- the tables -------------------------------------------------------------------------------------------------------


def mean(results: Sequence[Result], name: str, method: str = "handlens") -> float:
    """Of a field of the answers: of `said` it is the share of pictures that are called forged."""
    return float(np.mean([getattr(result.answers[method], name) for result in results] or [np.nan]))


def of(results: Sequence[Result], *groups: str) -> list[Result]:
    return [result for result in results if result.question.group in groups]


def verdict(value: float, limit: float, unit: str, most: bool) -> str:
    goal = f"{limit:.0%}" if unit == "%" else f"{limit:g}{unit}"
    met = value <= limit if most else value >= limit
    return f"{'at most' if most else 'at least'} {goal}: {'met' if met else 'NOT met'}"


def line(name: str, count: int, value: float, limit: float | None = None, most: bool = False, unit: str = "") -> None:
    """One measurement, and whether it is on the right side of its bar."""
    number = "skipped" if count == 0 else f"{value:.1%}" if unit == "%" else f"{value:.3f}{unit}"
    text = "" if limit is None or count == 0 else verdict(value, limit, unit, most)
    print(f"{name:54}{count:>6}{number:>12}  {text}".rstrip())


QUALITY = (
    ("real nuclei clones, mean oF1", "nuclei", 0.50),
    ("other real forgeries, mean oF1", "other", 0.80),
    ("made-up compound figures, mean oF1", "made forged", 0.75),
    ("made-up cut-out clones, mean oF1", "made cut-outs", None),
    ("authentic twins, false alarms", "twins", 0.03),
    ("clean sources, false alarms", "sources", 0.03),
    ("honest published figures, false alarms", "figures", 0.05),
    ("honest blots, false alarms", "blots", 0.03),
    ("made-up look-alikes, false alarms", "look-alike", 0.03),
    ("made-up gels, false alarms", "gel", 0.03),
    ("drawn figures, false alarms", "drawn", 0.03),
    ("drawn by other programs, false alarms", "drawn elsewhere", 0.03),
)


def print_quality(results: Sequence[Result]) -> None:
    print(f"\n{'quality':54}{'cases':>6}{'value':>12}  bar")
    for words, group, limit in QUALITY:
        some = of(results, group)
        name, unit = ("said", "%") if words.endswith("alarms") else ("score", "")
        line(words, len(some), mean(some, name), limit, most=unit == "%", unit=unit)
        print_kinds(some, name, unit)
    print_recall(results)
    print(f"time ran out for {sum(result.answers['handlens'].cut for result in results)} of {len(results)} pictures")


def print_recall(results: Sequence[Result]) -> None:
    """Where true pairs of small pictures are lost."""
    for words, groups in (("real", ("nuclei", "other")), ("made-up", ("made forged", "made cut-outs"))):
        some = [result for result in of(results, *groups) if result.width < SMALL]
        counts = np.sum([result.answers["handlens"].recall for result in some] or [(0, 0, 0, 0)], axis=0)
        for step, count, limit in zip(
            ("proposal", "verifier", "decision"), counts[1:], (0.95, None, 0.85), strict=True
        ):
            name = f"{words} under {SMALL} pixels wide, recall after {step}"
            line(name, int(counts[0]), float(count / max(1, counts[0])), limit)


def print_kinds(results: Sequence[Result], name: str, unit: str) -> None:
    """A line for each kind of made-up figure, and for what they are made of."""
    lines = {f"  {result.kind}": [] for result in sorted(results, key=lambda each: each.kind) if result.kind}
    for result in results if lines else ():
        lines[f"  {result.kind}"].append(result)
        lines.setdefault(f"  of {'clean sources' if result.question.of_sources else 'textures'}", []).append(result)
    for words, some in lines.items():
        line(words, len(some), mean(some, name), unit=unit)


def print_calibration(results: Sequence[Result], bins: int = 5) -> None:
    """What the detector says about made-up figures beside what is true; half of them are look-alikes."""
    some = of(results, "made forged", "look-alike")
    said = np.array([result.answers["handlens"].probability for result in some])
    true = np.array([result.question.group == "made forged" for result in some])
    place = np.minimum((said * bins).astype(int), bins - 1)
    print(f"\n{'how sure, on made-up figures':54}{'cases':>6}{'said':>12}{'forged':>9}")
    for each in range(bins):
        chosen = place == each
        shares = f"{said[chosen].mean():>12.2f}{true[chosen].mean():>9.2f}" if chosen.any() else ""
        print(f"{f'  {each / bins:.1f} to {(each + 1) / bins:.1f}':54}{chosen.sum():>6}{shares}")
    gap = sum(abs((said - true)[place == each].sum()) for each in range(bins)) / len(some)
    line("  mean gap", len(some), gap)


def print_plain(results: Sequence[Result]) -> None:
    print(f"\n{'beside plain SIFT + RANSAC':40}{'cases':>6}{'handlens':>10}{'plain':>10}{'ratio':>9}  bar")
    for words, groups in (("real forged", ("nuclei", "other")), ("made-up forged", ("made forged",))):
        some = of(results, *groups)
        for what, name, limit in (("mean oF1", "score", 2), ("CPU seconds an image", "seconds", 4)):
            ours, other = mean(some, name), mean(some, name, "plain")
            ratio = ours / other if other else float("inf")
            text = verdict(ratio, limit, "x", name == "seconds") if some else "skipped"
            print(f"{f'{words}, {what}':40}{len(some):>6}{ours:>10.3f}{other:>10.3f}{ratio:>8.2f}x  {text}")
    for words, group in (("authentic twins", "twins"), ("made-up look-alikes", "look-alike")):
        some = of(results, group)
        shares = f"{mean(some, 'said'):>10.1%}{mean(some, 'said', 'plain'):>10.1%}"
        print(f"{f'{words}, false alarms':40}{len(some):>6}{shares}")


def print_speed(results: Sequence[Result], walls: Mapping[bool, tuple[int, float]], workers: int) -> None:
    print(f"\n{'seconds a megapixel':54}{'cases':>6}{'value':>12}  bar")
    rates = [result.answers["handlens"].seconds / result.megapixels / 2 for result in results]
    line("all pictures: CPU of two cores, median", len(rates), statistics.median(rates or [0]), 4, most=True, unit=" s")
    for large, words in ((True, f"at least {LARGE} megapixels"), (False, "smaller")):
        some = [result for result in results if (result.megapixels >= LARGE) == large]
        rates = [result.answers["handlens"].seconds / result.megapixels / 2 for result in some]
        line(f"{words}: CPU of two cores, median", len(some), statistics.median(rates or [0]), 4, most=True, unit=" s")
        line(f"{words}: wall, `solve` with {workers} workers", *walls.get(large, (0, 0.0)), 4, most=True, unit=" s")


def print_ablation(results: Sequence[Result], names: Iterable[str]) -> None:
    some = [result for result in results if "without objects" in result.answers]
    groups = {name: of(some, name) for name in ("nuclei", "other", "made forged", "twins")}
    heads = "".join(f"{f'{name} ({len(group)})':>20}" for name, group in groups.items())
    print(f"\n{'mean oF1; of twins false alarms':32}{heads}")
    for name in names:
        values = [f"{mean(groups[group], 'score', name):.3f}" for group in ("nuclei", "other", "made forged")]
        values.append(f"{mean(groups['twins'], 'said', name):.1%}")
        print(f"{name:32}" + "".join(f"{value:>20}" for value in values))


# --- the whole run ----------------------------------------------------------------------------------------------------


def plan(
    questions: Sequence[Question], parts: Sequence[str], names: Sequence[str], ablated: Sequence[Question]
) -> Iterator[Item]:
    """Which methods are asked about each picture; large figures first, so that no process is late at the end."""
    for question in sorted(questions, key=lambda each: -each.size):
        methods = ["plain"] if "plain" in parts and question.group in PLAIN else []
        if parts != ["ablation"]:
            methods.append("handlens")
        if question in ablated and question.group in ("nuclei", "other", "made forged", "twins"):
            methods += [name for name in names if name not in methods]
        yield question, tuple(methods)


def look_at_all(items: Sequence[Item], model: Path | None, seed: int, workers: int) -> list[Result]:
    results = []
    make = partial(make_asker, model, seed)
    with bar("pictures") as progress:
        for _index, result in map_in_processes(make, items, workers=workers, name=lambda item: str(item[0])):
            results.append(result)
            progress(len(results), len(items))
    return results


def wall_times(questions: Sequence[Question], detector: Detector, seed: int, workers: int) -> dict:
    """How many pictures, and wall seconds a megapixel of `handlens.solve`, for large and for small ones."""
    sources, predictor, found = read_sources(), ForgeryPredictor(detector.ready()), {}
    seen = [see(question, sources, seed)[0] for question in questions]
    for large in {megapixels(picture) >= LARGE for picture in seen}:
        some = [picture for picture in seen if (megapixels(picture) >= LARGE) == large]
        with tempfile.TemporaryDirectory() as name:
            for number, picture in enumerate(some):
                write_png(Path(name) / "test_images" / f"{number}.png", picture)
            started = time.perf_counter()
            pipeline.solve(
                handlens.challenge("forgery"), Path(name), Path(name) / "run", predictor=predictor, workers=workers
            )
            found[large] = len(some), (time.perf_counter() - started) / sum(map(megapixels, some))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few pictures of each kind: to see that it works")
    parser.add_argument("--part", choices=PARTS, action="append", help="one of the tables; all where not given")
    parser.add_argument("--seed", type=int, default=2026, help="of the made-up figures; one that nothing was fitted to")
    parser.add_argument("--figures", type=int, default=200, help="made-up figures, half of them forged")
    parser.add_argument("--ablated", type=int, default=60, help="pictures of each group that the ablation looks at")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--model", type=Path, help="a folder with a decision.json, in place of the included one")
    options = parser.parse_args()
    parts = options.part or list(PARTS)
    questions = list(list_questions(options.figures))
    questions = thinned(questions, 6) if options.quick else questions
    if "quality" not in parts:
        questions = [question for question in questions if question.group in PLAIN]
    timed = thinned(questions, 2 if options.quick else 12) if "speed" in parts else []
    questions = timed if parts == ["speed"] else questions
    for folder in {"real", "sources"} - {path.name for path in SHARED.glob("*")}:
        print(f"{SHARED / folder} is not there: its lines are skipped")
    known = detectors(options.model)
    walls = wall_times(timed, known["handlens"], options.seed, options.workers)
    ablated = thinned(questions, options.ablated) if "ablation" in parts else []
    items = [item for item in plan(questions, parts, list(known), ablated) if item[1]]
    results = look_at_all(items, options.model, options.seed, options.workers)
    if "quality" in parts:
        print_quality(results)
        print_calibration(results)
    if "plain" in parts:
        print_plain(results)
    if "speed" in parts:
        print_speed(results, walls, options.workers)
    if "ablation" in parts:
        print_ablation(results, known)


if __name__ == "__main__":
    main()
