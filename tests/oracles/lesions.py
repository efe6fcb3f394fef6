"""The lesions score, from the contest's text, class by class and case by case."""

CLASSES = ["AK", "BCC", "SK", "SCC", "VASC", "DF", "NV", "NON", "MEL", "ON"]


def f1(true, said, name):
    tp = fp = fn = 0
    for t, s in zip(true, said, strict=True):
        if s == name and t == name:
            tp += 1
        elif s == name:
            fp += 1
        elif t == name:
            fn += 1
    precision = tp / (tp + fp) if tp + fp else 0
    recall = tp / (tp + fn) if tp + fn else 0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0


def prediction_score(probabilities, true):
    said = []
    for row in probabilities:
        best = 0
        for number in range(len(CLASSES)):
            if row[number] > row[best]:
                best = number
        said.append(CLASSES[best])
    scores = {name: f1(true, said, name) for name in CLASSES}
    malignant = (scores["BCC"] + scores["SCC"] + scores["MEL"]) / 3
    medium = (scores["SK"] + scores["VASC"]) / 2
    benign = (scores["AK"] + scores["DF"] + scores["NV"] + scores["NON"] + scores["ON"]) / 5
    weighted = (3 * malignant + 2 * medium + 1 * benign) / 6
    accuracy = sum(t == s for t, s in zip(true, said, strict=True)) / len(true)
    return 0.5 * accuracy + 0.5 * weighted
