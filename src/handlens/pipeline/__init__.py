"""One function for each arrow: folder to cases to answers to submission to score. What the commands call."""

from handlens.pipeline.deadline import Deadline, read_duration, stopwatch
from handlens.pipeline.each_case import count_workers
from handlens.pipeline.folders import TRUTH, find_truth, join_truth, open_truth, read_cases, sample, survey
from handlens.pipeline.masks import decode_masks, encode_masks
from handlens.pipeline.runs import challenge_of_model, read_training, train
from handlens.pipeline.scoring import check, judge, score, score_json
from handlens.pipeline.solving import Solved, Solver, load, solve, solved_json

__all__ = [
    "TRUTH",
    "Deadline",
    "Solved",
    "Solver",
    "challenge_of_model",
    "check",
    "count_workers",
    "decode_masks",
    "encode_masks",
    "find_truth",
    "join_truth",
    "judge",
    "load",
    "open_truth",
    "read_cases",
    "read_duration",
    "read_training",
    "sample",
    "score",
    "score_json",
    "solve",
    "solved_json",
    "stopwatch",
    "survey",
    "train",
]
