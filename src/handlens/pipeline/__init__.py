"""One function for each arrow: folder to cases to answers to submission to score. What the commands call."""

from handlens.pipeline.deadline import Deadline, read_duration, stopwatch
from handlens.pipeline.download import download
from handlens.pipeline.each_case import count_workers
from handlens.pipeline.folders import TRUTH, find_truth, join_truth, open_truth, read_cases, sample, survey
from handlens.pipeline.loading import Solver, load
from handlens.pipeline.masks import decode_masks, encode_masks
from handlens.pipeline.reporting import options_of
from handlens.pipeline.run_report import report_judgement, report_training
from handlens.pipeline.runs import adopt_training, challenge_of_model, is_training, read_training, train
from handlens.pipeline.score_report import report_refused, report_score
from handlens.pipeline.scoring import check, judge, score, score_json
from handlens.pipeline.solve_report import read_score, report_adjusted, report_several, report_solve
from handlens.pipeline.solving import Solved, solve, solved_json

__all__ = [
    "TRUTH",
    "Deadline",
    "Solved",
    "Solver",
    "adopt_training",
    "challenge_of_model",
    "check",
    "count_workers",
    "decode_masks",
    "download",
    "encode_masks",
    "find_truth",
    "is_training",
    "join_truth",
    "judge",
    "load",
    "open_truth",
    "options_of",
    "read_cases",
    "read_duration",
    "read_score",
    "read_training",
    "report_adjusted",
    "report_judgement",
    "report_refused",
    "report_score",
    "report_several",
    "report_solve",
    "report_training",
    "sample",
    "score",
    "score_json",
    "solve",
    "solved_json",
    "stopwatch",
    "survey",
    "train",
]
