"""The classes a lesion can have, as data: names, output order, risk groups, weights; and the body sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RISK_WEIGHTS: Mapping[str, int] = {"malignant": 3, "medium": 2, "benign": 1}
"""What a group's mean F1 counts in the Weighted-F1; both editions use the same weights."""

LOCATIONS = ("arm", "feet", "genitalia", "hand", "head", "leg", "torso")
"""Body sites in the order of their numbers, 1 to 7."""


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """One edition's classes: short names in output order, full names, risk groups, where labels are found.

    `label_columns` are the columns of a labels file that may hold the short name, the preferred one first.

    >>> TAXONOMIES["ten"].classes[0], TAXONOMIES["ten"].names[0]
    ('AK', 'actinic keratosis')
    """

    name: str
    classes: tuple[str, ...]
    names: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]
    weights: Mapping[str, int]
    label_columns: tuple[str, ...]


_TEN = Taxonomy(
    name="ten",
    classes=("AK", "BCC", "SK", "SCC", "VASC", "DF", "NV", "NON", "MEL", "ON"),
    names=(
        "actinic keratosis",
        "basal cell carcinoma",
        "seborrheic keratosis",
        "squamous cell carcinoma",
        "vascular lesion",
        "dermatofibroma",
        "melanocytic nevus",
        "non-neoplastic lesion",
        "melanoma",
        "other neoplastic lesion",
    ),
    groups={
        "malignant": ("BCC", "SCC", "MEL"),
        "medium": ("SK", "VASC"),
        "benign": ("AK", "DF", "NV", "NON", "ON"),
    },
    weights=RISK_WEIGHTS,
    label_columns=("label", "Class"),
)

_ELEVEN = Taxonomy(
    name="eleven",
    classes=("AKIEC", "BCC", "BEN_OTH", "BKL", "DF", "INF", "MAL_OTH", "MEL", "NV", "SCCKA", "VASC"),
    names=(
        "actinic keratosis or intraepidermal carcinoma",
        "basal cell carcinoma",
        "other benign proliferation",
        "benign keratinocytic lesion",
        "dermatofibroma",
        "inflammatory or infectious condition",
        "other malignant proliferation",
        "melanoma",
        "melanocytic nevus",
        "squamous cell carcinoma or keratoacanthoma",
        "vascular lesion or haemorrhage",
    ),
    groups={
        "malignant": ("BCC", "MAL_OTH", "MEL", "SCCKA"),
        "medium": ("AKIEC", "BKL", "VASC"),
        "benign": ("BEN_OTH", "DF", "INF", "NV"),
    },
    weights=RISK_WEIGHTS,
    label_columns=("label_11", "label", "Class"),
)

TAXONOMIES: Mapping[str, Taxonomy] = {taxonomy.name: taxonomy for taxonomy in (_TEN, _ELEVEN)}
"""The contest's ten classes, and the eleven of its later edition."""
