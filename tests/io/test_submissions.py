"""CSV and Parquet in all their spellings, and every message with its line."""

import csv
import io
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlens import registry
from handlens.errors import DataError, HandlensError, SubmissionError
from handlens.io import csv as csv_rows
from handlens.io import csv as rows_of
from handlens.io import submissions
from handlens.io.csv import TableError
from handlens.types import Case

CASES = [Case(id, None, (1000, 1000)) for id in ("0", "1", "2")]
CODEC = registry.challenge("cells").codec({"order": "rows"})


def problems(tmp_path, content, cases=CASES, codec=CODEC, name="submission.csv"):
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(map(str, submissions.read_submission(file, codec, cases).problems))


@pytest.mark.parametrize(
    "content",
    [
        b"img,pixels\n0,1 1\n1,\n2,5 2\n",
        b"\xef\xbb\xbfimg,pixels\n0,1 1\n1,\n2,5 2\n",
        b"img,pixels\r\n0,1 1\r\n1,\r\n2,5 2\r\n",
        b"img,pixels\r0,1 1\r1,\r2,5 2\r",
        b"img,pixels\n0,1 1\n1,\n2,5 2",
        b'"img","pixels"\n"0","1 1"\n"1",""\n"2","5 2"\n',
        b"img,pixels\n2,5 2\n0,1 1\n1,\n\n\n",
        b"img,pixels\n\n0,1 1\n\n1,\n2,5 2\n",
        b'img,pixels\n0,"1\n1"\n1,\n2,5 2\n',
        b"img,pixels\n0, 1  1 \n1,\n2,5\t2\n",
    ],
)
def test_spellings_that_are_valid(tmp_path, content):
    file = tmp_path / "submission.csv"
    file.write_bytes(content)
    read = submissions.read_submission(file, CODEC, CASES)
    assert read.problems == []
    assert [read.answers[id].area for id in "012"] == [1, 0, 2]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", ["the file has no header; expected img, pixels"]),
        ("img,pixels\n", ["no row for img 0", "no row for img 1", "no row for img 2"]),
        ("0,1 1\n", ["line 1: the columns are 0, 1 1; expected img, pixels"]),
        ("img,pixel\n0,\n1,\n2,\n", ["line 1: the columns are img, pixel; expected img, pixels"]),
        ("img,pixels,x\n0,,\n1,,\n2,,\n", ["line 1: the columns are img, pixels, x; expected img, pixels"]),
        ("img;pixels\n0;\n", ["line 1: the columns are img;pixels; expected img, pixels: separate them with commas"]),
        ("img,pixels\n00,\n01,\n02,\n", [*(f"line {n + 2}: img 0{n} is not one of the 3 cases (0, 1, 2)" for n in range(3)), *(f"no row for img {n}" for n in range(3)), "img is a plain number: 00.png is img 0, not 00"]),
        ("img,pixels\n01,\n02,\n03,\n", [*(f"line {n + 1}: img 0{n} is not one of the 3 cases (0, 1, 2)" for n in range(1, 4)), *(f"no row for img {n}" for n in range(3)), "img counts from 1 here, but ids start at 0"]),
        ("img,pixels\n0,\n1,\n2,\n2,\n", ["line 5: img 2 is duplicated, first at line 4"]),
        ("img,pixels\n0,\n1,\n2,\n7,\n", ["line 5: img 7 is not one of the 3 cases (0, 1, 2)"]),
        ("img,pixels\n0,\n01,\n2,\n", ["line 3: img 01 is not one of the 3 cases (0, 1, 2)", "no row for img 1", "img is a plain number: 00.png is img 0, not 00"]),
        ("img,pixels\n0,1 1,5\n1,\n2,\n", ["line 2, img 0: 3 fields, the header has 2; text with commas goes in double quotes"]),
        ("img,pixels\n0\n1,\n2,\n", ["line 2, img 0: 1 field, the header has 2; text with commas goes in double quotes"]),
        ('img,pixels\n0,"1\n1\n1"\n1,\n2,x\n', ["line 2, img 0: 3 numbers, so the last start has no length", "line 6, img 2: 'x' is not a whole number of digits 0 to 9"]),
        ('img,pixels\n0,"1 1\n1,\n2,\n', ["line 2: broken CSV: a quote is opened here and never closed"]),
        ("img,pixels\n1,\n2,\n3,\n", ["line 4: img 3 is not one of the 3 cases (0, 1, 2)", "no row for img 0", "img counts from 1 here, but ids start at 0"]),
        (b"img,pixels\n0,\xff\xfe\n1,\n2,\n", ["line 2: the row is not UTF-8 text: save the file as UTF-8", "no row for img 0"]),
        (b"\xff\xfei\x00m\x00", ["this is UTF-16 text: save it as UTF-8"]),
        (b"\x1f\x8b\x08\x00", ["this is a gzip archive: unpack it first"]),
        (b"PK\x03\x04", ["this is a zip archive or a spreadsheet: save the table as CSV"]),
    ],
)  # fmt: skip
def test_every_problem_has_its_line(tmp_path, content, expected):
    assert problems(tmp_path, content) == expected


def test_the_example_of_the_house(tmp_path):
    cases = [Case(str(number), None, (1000, 1000)) for number in range(14)]
    lines = ["1,1 5 9", "7x,", "2,", "3,999000 2000", *(f"{number}," for number in (0, *range(5, 14)))]
    found = problems(tmp_path, "img,pixels\n" + "\n".join(lines), cases)
    assert found == [
        "line 2, img 1: 3 numbers, so the last start has no length",
        "line 3: img 7x is not one of the 14 cases (0 to 13)",
        "line 5, img 3: pair 1 ends at pixel 1000999, the image has 1000000",
        "no row for img 4",
    ]


def test_ids_are_raw_text(tmp_path):
    cases = [Case(id, None, (9, 9)) for id in ("01", "1", "NA", "nan", "", "é", "1.0", "a,b", 'q"')]
    file = tmp_path / "submission.csv"
    submissions.write_submission(file, CODEC, cases, {case.id: CODEC.parse(("1 1",), case) for case in cases})
    assert submissions.read_submission(file, CODEC, cases).problems == []
    assert set(submissions.read_submission(file, CODEC, cases).answers) == {case.id for case in cases}


def test_a_field_beyond_the_csv_modules_limit(tmp_path):
    case = Case("0", None, (4000, 4000))
    text = " ".join(f"{start} 1" for start in range(1, 200_000, 2))
    assert len(text) > csv.field_size_limit()
    (tmp_path / "submission.csv").write_text(f"img,pixels\n0,{text}\n")
    read = submissions.read_submission(tmp_path / "submission.csv", CODEC, [case])
    assert read.answers["0"].area == 100_000


@given(st.lists(st.sampled_from(["a", "é", '"', '""', ",", ";", "\n", "\r", "\r\n", " ", "\0", "1 2"])).map("".join))
def test_splitting_agrees_with_the_csv_module(text):
    try:
        reader, expected, line = csv.reader(io.StringIO(text, newline=""), strict=True), [], 1
        for fields in reader:
            expected += [(line, fields)] if fields else []
            line = reader.line_num + 1
    except csv.Error:
        expected = None
    try:
        ours = [(line, [f.decode() for f in fields]) for line, fields in csv_rows.split_records(text.encode(), b",")]
    except csv_rows.TableError:
        ours = None
    assert ours == expected


def test_control_characters_do_not_reach_the_terminal(tmp_path):
    (found, *_) = problems(tmp_path, "img,pixels\n\x1b[31mred\x07,\n1,\n2,\n")
    assert found.isprintable()


def test_only_ten_problems_are_shown_and_the_rest_counted(tmp_path):
    cases = [Case(str(number), None, (9, 9)) for number in range(25)]
    (tmp_path / "submission.csv").write_text("img,pixels\n")
    with pytest.raises(SubmissionError) as error:
        submissions.require_submission(tmp_path / "submission.csv", CODEC, cases)
    lines = str(error.value).splitlines()
    assert lines[0] == "submission.csv cannot be scored (25 problems):"
    assert len(lines) == 12
    assert lines[-1] == "  and 15 more"


@pytest.mark.parametrize("ids", [["0", "1", "2"], [0, 1, 2]])
def test_parquet_ids_may_be_text_or_whole_numbers(tmp_path, ids):
    pq.write_table(pa.table({"img": ids, "pixels": ["1 1", "", "5 2"]}), tmp_path / "submission.parquet")
    assert submissions.read_submission(tmp_path / "submission.parquet", CODEC, CASES).problems == []


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"img": ["0", "1", "2"], "pixels": ["1 1", None, "5 2"]}, "row 2, img 1: a value is missing (null)"),
        ({"img": [0.0, 1.0, 2.0], "pixels": ["", "", ""]}, "row 1: img 0.0 is not one of"),
        ({"img": ["0", None, "2"], "pixels": ["", "", ""]}, "row 2: img is missing"),
        ({"img": ["0", "1", "1"], "pixels": ["", "", ""]}, "row 3: img 1 is duplicated, first at row 2"),
        ({"img": ["0", "1", "2"], "pixels": [[1], [2], [3]]}, "column 'pixels' is of type list<"),
        (
            {"img": ["0", "1", "2"], "pixels": pa.array([10**15] * 3, pa.timestamp("s"))},
            "column 'pixels' is of type timestamp",
        ),
        ({"img": ["0", "1", "2"], "pixels": [True, False, True]}, "column 'pixels' is of type bool"),
        ({"id": ["0", "1", "2"], "pixels": ["", "", ""]}, "the columns are id, pixels; expected img, pixels"),
    ],
)
def test_parquet_problems(tmp_path, columns, message):
    pq.write_table(pa.table(columns), tmp_path / "submission.parquet")
    found = submissions.read_submission(tmp_path / "submission.parquet", CODEC, CASES).problems
    assert str(found[0]).startswith(message)


@pytest.mark.parametrize("index", [2, -1])
def test_a_parquet_cell_outside_its_dictionary_is_refused(index):
    """Arrow gives such indices on, and Python takes -1 for the last text."""
    texts = pa.array(["1 1", ""])
    assert rows_of._column_texts(pa.DictionaryArray.from_arrays(np.array([1, 0]), texts)) == ["", "1 1"]
    column = pa.DictionaryArray.from_arrays(np.array([0, index]), texts, safe=False)
    with pytest.raises(TableError, match="a text that its dictionary does not have"):
        rows_of._column_texts(column)


@pytest.mark.parametrize("which", [0, 5])  # of the file and of its group; between them those of columns
def test_a_parquet_footer_with_a_false_count_is_refused(tmp_path, which):
    path = tmp_path / "submission.parquet"
    column = [str(number) for number in range(1_000)]
    pq.write_table(pa.table({"img": column, "pixels": column}), path, write_statistics=False, use_dictionary=False)
    data, varint = path.read_bytes(), b"\xd0\x0f"  # 1,000 as the footer writes it
    size = int.from_bytes(data[-8:-4], "little")
    head, footer = data[: -8 - size], data[-8 - size :]
    pieces = footer.split(varint)
    assert len(pieces) == 7
    path.write_bytes(head + varint.join(pieces[: which + 1]) + b"\xd2\x0f" + varint.join(pieces[which + 1 :]))
    assert "broken Parquet file" in str(submissions.read_submission(path, CODEC, CASES).problems[0])


def test_a_parquet_dictionary_cannot_blow_up_memory(tmp_path):
    column = pa.DictionaryArray.from_arrays(np.zeros(150, np.int32), pa.array(["x" * 2_000_000]))
    pq.write_table(pa.table({"img": [str(n) for n in range(150)], "pixels": column}), tmp_path / "bomb.parquet")
    code = (
        "import re, sys\nfrom pathlib import Path\nfrom handlens import registry\nfrom handlens.io import submissions\nfrom handlens.types import Case\n"
        "codec = registry.challenge('cells').codec({'order': 'rows'})\n"
        "cases = [Case(str(n), None, (9, 9)) for n in range(150)]\n"
        "found = submissions.read_submission(Path(sys.argv[1]), codec, cases).problems\n"
        "print(len(found), int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) // 1024)"
    )
    run = [sys.executable, "-c", code, str(tmp_path / "bomb.parquet")]
    count, megabytes = map(int, subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())
    assert count == 150  # not a number, in every row
    assert megabytes < 550  # 300 MB of text twice, in Arrow and in Python, would be more


def test_limits_of_a_table(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_rows, "MAX_ROWS", 2)
    assert "more than 2 rows" in problems(tmp_path, "img,pixels\n0,\n1,\n2,\n")[0]
    monkeypatch.setattr(csv_rows, "MAX_FILE_BYTES", 5)
    assert "the most is 5" in problems(tmp_path, "img,pixels\n0,\n1,\n2,\n")[0]


def test_a_row_of_many_fields_is_refused_at_once(tmp_path):
    assert "more than 1,000 fields" in problems(tmp_path, "," * 3_000_000)[0]


def test_an_id_of_thousands_of_digits_is_just_unknown(tmp_path):
    assert "is not one of the 3 cases" in problems(tmp_path, f"img,pixels\n{'1' * 5000},\n1,\n2,\n")[0]


def test_a_parquet_file_without_columns(tmp_path):
    pq.write_table(pa.table({}), tmp_path / "submission.parquet")
    found = submissions.read_submission(tmp_path / "submission.parquet", CODEC, CASES).problems
    assert str(found[0]) == "the columns are none; expected img, pixels"


def test_a_parquet_file_that_unpacks_to_gigabytes_is_refused_in_time(tmp_path):
    column = pa.DictionaryArray.from_arrays(np.zeros(5_000, np.int32), pa.array(["x" * 20_000_000]))
    pq.write_table(pa.table({"img": [str(n) for n in range(5_000)], "pixels": column}), tmp_path / "bomb.parquet")
    started = time.process_time()
    found = submissions.read_submission(tmp_path / "bomb.parquet", CODEC, CASES).problems
    assert "bytes unpacked; too large" in str(found[-1])
    assert time.process_time() - started < 20


def test_blank_lines_cost_nothing(tmp_path):
    started = time.process_time()
    assert problems(tmp_path, "img,pixels\n0,\n" + "\n" * 30_000_000 + "1,\r\n\r\n\r\n2,x\n")[0].startswith(
        "line 30000006"
    )
    assert time.process_time() - started < 5


def test_a_field_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_rows, "MAX_FIELD_BYTES", 1_000)
    assert "a field of 2,000 bytes" in problems(tmp_path, "img,pixels\n0," + "1" * 2_000 + "\n")[0]


def test_a_header_of_megabytes_is_shown_short(tmp_path):
    (found,) = problems(tmp_path, b"\x00" * 30_000_000)
    assert len(found) < 200


def test_rows_are_parsed_in_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(submissions, "BATCH_BYTES", 10)
    cases = [Case(str(number), None, (99, 99)) for number in range(50)]
    (tmp_path / "mine.csv").write_text("img,pixels\n" + "".join(f"{number},{number + 1} 7\n" for number in range(50)))
    answers = submissions.require_submission(tmp_path / "mine.csv", CODEC, cases)
    assert [answers[str(number)].starts[0] for number in range(50)] == list(range(50))


def test_what_is_no_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        assert ", not a regular file: " in str(submissions.read_submission(path, CODEC, CASES).problems[0])


@pytest.mark.slow
@pytest.mark.parametrize(("count", "content"), [(200_000, "x{0},\n"), (200_000, "0,\n")], ids=["strangers", "twice"])
def test_time_does_not_grow_with_the_square(tmp_path, count, content):
    cases = [Case(str(number), None, (9, 9)) for number in range(5_000)]
    (tmp_path / "many.csv").write_text("img,pixels\n" + "".join(content.format(number) for number in range(count)))
    started = time.process_time()
    found = submissions.read_submission(tmp_path / "many.csv", CODEC, cases).problems
    assert str(found[submissions.MOST_PROBLEMS]) == (
        f"and {count - submissions.MOST_PROBLEMS - (content[0] == '0'):,} rows more with problems, which are not listed"
    )
    truth = "img,pixels\n" + "".join(f"{number},\n" for number in range(100_000)) + "99999,\n"
    (tmp_path / "truth.csv").write_text(truth)
    with pytest.raises(DataError, match="img 99999 is duplicated"):
        submissions.read_solutions(tmp_path / "truth.csv", id_column="img", answer_column="pixels")
    assert time.process_time() - started < 15


@pytest.mark.parametrize("name", registry.BUILT_IN)
@pytest.mark.parametrize("piece", ["1", "1 ", "[", "[1, 1];", "9" * 50 + " ", "x", "1,", "authentic "])
def test_long_cells_are_answered_in_time(tmp_path, name, piece):
    challenge = registry.challenge(name)
    codec = challenge.codec(challenge.settings())
    started = time.process_time()
    for end in ("", "x", "]"):
        cells = tuple([piece * (1_000_000 // len(piece)) + end] + ["0"] * (len(codec.columns) - 1))
        with (tmp_path / "long.csv").open("w", newline="") as stream:
            csv.writer(stream).writerows([codec.header, ("a", *cells)])
        for problem in submissions.read_submission(tmp_path / "long.csv", codec, [Case("a", None, (9, 9))]).problems:
            assert len(str(problem)) < 400
    assert time.process_time() - started < 5


def test_a_file_that_is_not_there(tmp_path):
    found = submissions.read_submission(tmp_path / "none.csv", CODEC, CASES).problems
    assert str(found[0]) == "no such file"


def test_writing_is_atomic(tmp_path, monkeypatch):
    file = tmp_path / "submission.csv"
    file.write_text("before")
    answers = {case.id: CODEC.parse(("1 1",), case) for case in CASES[:2]}  # one is missing: writing fails half way
    with pytest.raises(KeyError):
        submissions.write_submission(file, CODEC, CASES, answers)
    assert file.read_text() == "before"
    assert os.listdir(tmp_path) == ["submission.csv"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n", "line 1: the columns are a, b; a solution has img, pixels"),
        ("img,pixels\n", "no rows under the header"),
        ("img,pixels\n0,\n0,\n", "line 3: img 0 is duplicated"),
        ("img,pixels,pixels\n0,1 4,9 9\n", "line 1: a column is duplicated: img, pixels, pixels"),
        (b"img,pixels\n\xff,1 4\n", "line 2: the row is not UTF-8 text"),
        ("img,pixels,shape\n0,1 1,[10 10]\n", r"line 2: shape \[10 10\]; expected \[height, width\] or nothing"),
        ("img,pixels,shape\n0,1 1," + "[" * 99_999 + "\n", "line 2: shape"),
        ('img,pixels,shape\n0,1 1,"[0, 10]"\n', "line 2: shape 0x10; an image has 1 to"),
        ('img,pixels,shape\n0,1 1,"[999999999, 999999999]"\n', "line 2: shape 999999999x999999999; an image has 1 to"),
        ("img,pixels,height,width\n0,1 1,²,10\n", "line 2: height ², width 10; expected two whole numbers"),
        ("img,pixels,height,width\n0,1 1,,10\n", "line 2: height '', width 10; expected two whole numbers"),
        ("img,pixels\n0\n", "line 2: 1 field, the header has 2"),
    ],
)
def test_broken_solutions(tmp_path, content, message):
    (tmp_path / "solution.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match="solution.csv: " + message):
        submissions.read_solutions(tmp_path / "solution.csv", id_column="img", answer_column="pixels")


def test_solutions_may_have_shapes_and_other_columns(tmp_path):
    (tmp_path / "a.csv").write_text('Usage,img,pixels,shape\nPublic,0,1 1,"[30, 40]"\nPrivate,1,,authentic\n')
    (tmp_path / "b.csv").write_text("img,pixels,height,width\n0,1 1,30,40\n")
    read = [
        submissions.read_solutions(tmp_path / name, id_column="img", answer_column="pixels")
        for name in ("a.csv", "b.csv")
    ]
    assert [s.shape for s in read[0]] == [(30, 40), None]
    assert read[1][0].shape == (30, 40)


@pytest.mark.parametrize(
    "ask",
    [
        lambda path: submissions.read_submission(path, CODEC, CASES),
        lambda path: submissions.write_cells(path, CODEC, [("0", "1 1")]),
        lambda path: submissions.refuse_format("parquet"),
    ],
)
def test_without_the_library_parquet_says_what_to_install(tmp_path, monkeypatch, ask):
    path = tmp_path / "submission.parquet"
    pq.write_table(pa.table({"img": ["0", "1", "3"], "pixels": ["1 1", "", "5 2"]}), path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(HandlensError, match=r"a Parquet file needs pyarrow: pip install 'handlens\[parquet\]'"):
        ask(path)
    submissions.refuse_format("csv")
