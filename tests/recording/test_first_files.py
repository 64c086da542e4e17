"""The first files that people try: each is read, or its error says what to add or to change.

One table: what is in the file, with which options, and what comes: the classes, or words of the
error.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import warnings
from typing import Any

import pytest

from stream_can import StreamCANError
from stream_can.recording.recording import Recording

pytestmark = pytest.mark.fast

TWO = [{"label": "neg", "score": 0.7}, {"label": "pos", "score": 0.3}]
BEST = [TWO[0]]
LOGITS = "logits? Add --logits"
BEST_ALONE = "top_k=None"
LABELS_NEEDED = "no column 'label' for label; the file has probs, and labels are needed beside them"
PERCENT = "percentages? Add --normalise always"
TAKEN = "the probabilities are those of column {!r}; --probs names another"


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


PERCENTAGES = "text,cat,dog,label\nx,62.5,37.5,cat\ny,10,90,dog\n"
SCORES = "id,cat,dog,label\n1,-0.58,1.2,cat\n2,2.1,-1,dog\n"
SUFFIX = "id,P(OK) [%],P(bad one) [%],label\n1,60,40,OK\n2,30,70,bad one\n"

CATBOOST = "SampleId\tProbability:Class=cat\tProbability:Class=dog\tlabel\n0\t.4\t.6\tcat\n"
COMMAS = "x;P(cat);P(dog);label\na;62,5%;37,5 %;cat\nb;10,00%;90,00%;dog\n"

TEN = ",".join(f"p_{k}" for k in (0, 1, 10, *range(2, 10)))

FOUND = [
    ("what stands around a label", "a.csv", "x,P (kind=a),P (kind=b),kind\n.2,.4,.6,a\n",
     {"label": "kind"}, ["a", "b"], None),
    ("names that end alike", "a.csv", "p_Wed,p_Divorced,p_Not yet wed,label\n.2,.6,.2,Divorced\n",
     {}, ["Wed", "Divorced", "Not yet wed"], None),
    ("names that begin alike", "a.csv", "class 1 p,class 2 p,label\n.4,.6,class 2\n", {},
     ["class 1", "class 2"], None),
    ("a prefix that is given, and names that end alike", "a.csv",
     "probs_p_Wed,probs_p_Divorced,label\n.4,.6,Wed\n", {}, ["Wed", "Divorced"], None),
    ("a pattern beside a number", "a.csv", "P(a),P(b),x,label\n.4,.6,.2,a\n", {}, ["a", "b"], None),
    ("a flag beside columns", "a.csv", "p_a,p_b,flag,label\n.4,.6,1,a\n", {}, ["a", "b"], None),
    ("a class that is 0 at first", "a.csv", "predict,p0,p1,label\n0,.9,.1,0\n1,.2,.8,1\n", {},
     ["0", "1"], None),
    ("an index that is 0 at first", "a.csv", "n,cat,dog,label\n0,.9,.1,cat\n7,.2,.8,dog\n", {},
     ["cat", "dog"], None),
    ("numbers in order", "a.csv", f"{TEN},label\n{','.join(['.5', '.5', *['0'] * 9])},10\n", {},
     [str(k) for k in range(11)], None),
    ("numbered names in a list by score", "a.jsonl", lines({"probs": [
        {"label": "LABEL_2", "score": 0.5}, {"label": "LABEL_0", "score": 0.3},
        {"label": "LABEL_1", "score": 0.2}], "label": 2}), {},
     ["LABEL_0", "LABEL_1", "LABEL_2"], None),
    ("another type in a column that nobody uses", "a.csv",
     "amount,cat,dog,label\n" + "12,.5,.5,cat\n" * 1500 + "1.5,.5,.5,cat\n", {}, ["cat", "dog"],
     None),
    ("a line for Excel", "a.csv", "sep=;\ncat;dog;label\n.5;.5;cat\n", {}, ["cat", "dog"], None),
    ("labels in another case", "a.csv", "p_cat,p_dog,label\n.4,.6, Cat\n.3,.7,DOG \n", {},
     ["cat", "dog"], None),
    ("columns in another case", "a.csv", "x,cat,dog,label\n.2,.4,.6, Cat\n.5,.3,.7,DOG \n", {},
     ["cat", "dog"], None),
    ("what the columns begin with", "a.tsv", CATBOOST, {"probs": "Probability:Class="},
     ["cat", "dog"], None),
    ("a part of it", "a.tsv", CATBOOST, {"probs": "Probability:"}, ["cat", "dog"], None),
    ("percentages with decimal commas", "a.csv", COMMAS, {"probs": "P(*)"}, ["cat", "dog"], None),
    ("those found", "a.csv", COMMAS, {}, ["cat", "dog"], None),
    ("a comment first", "a.csv", "# by x\ncat,dog,label\n.5,.5,cat\n", {}, ["cat", "dog"], None),
    ("a header with a hash", "a.csv", "#n,cat,dog,label\n3,.5,.5,cat\n", {}, ["cat", "dog"], None),
    ("percentages", "a.csv", PERCENTAGES, {"normalise": "always"}, ["cat", "dog"], None),
    ("a pattern", "a.csv", SUFFIX, {"probs": "P(*) [%]", "normalise": "always"}, ["OK", "bad one"],
     None),
    ("a list", "a.jsonl", lines({"id": 1, "model_scores": [0.5, 0.5], "label": 0}), {}, [0, 1],
     "model_scores"),
    ("a list as text", "a.csv", 'id,scores,label\n1,"[0.5, 0.5]",1\n', {}, [0, 1], "scores"),
    ("an object", "a.jsonl", lines({"p": {"a": 0.5, "b": 0.5}, "label": "a"}), {}, ["a", "b"], "p"),
    ("transformers in a field", "a.jsonl", lines({"text": "x", "output": TWO, "label": "neg"}), {},
     ["neg", "pos"], "output"),
    ("a prefix of our own", "a.csv", "prob_cat,prob_dog,label\n.25,.75,cat\n", {}, ["cat", "dog"],
     None),
    ("and a number beside", "a.csv", "age,proba_a,proba_b,label\n31,.25,.75,a\n", {}, ["a", "b"],
     None),
    ("a pattern in lines", "a.jsonl", lines({"p(a)": 0.5, "p(b)": 0.5, "label": "a"}),
     {"probs": "p(*)"}, ["a", "b"], None),
    ("semicolons", "a.csv", "id;probs_a;probs_b;label\n1;0,25;0,75;a\n", {}, ["a", "b"], None),
    ("a byte order mark", "a.csv", "\ufeffprobs_a,probs_b,label\n.25,.75,a\n", {}, ["a", "b"],
     None),
    ("an index", "a.csv", ",cat,dog,label\n0,.25,.75,cat\n", {}, ["cat", "dog"], None),
    ("quoted numbers", "a.csv", 'probs_a,probs_b,label\n"0.25","0.75",a\n', {}, ["a", "b"], None),
    ("numbers of classes", "a.csv", "cat,dog,label\n.25,.75,1\n", {}, ["cat", "dog"], None),
    ("of two classes one", "a.csv", "score,label\n.25,1\n", {"probs": "score"}, [0, 1], None),
]  # fmt: skip

BATCH = {"r": {"outputs": [{"name": "p", "datatype": "FP32", "shape": [2, 2],
                            "data": [0.5, 0.5, 0.4, 0.6]}]}, "label": [0, 1]}  # fmt: skip
EACH_OF_V2 = "a line each: jq -c '. as $line | .r.outputs[0] as $rows | range($rows.shape[0]) as $k"
LONG = "n,class,prob,label\n0,cat,.4,cat\n0,dog,.6,cat\n1,dog,.7,dog\n1,cat,.3,dog\n"

REFUSED = [
    ("percentages", "a.csv", PERCENTAGES, {}, f"Columns cat, dog sum to 100: {PERCENT}"),
    ("percentages by name", "a.csv", PERCENTAGES, {"classes": ["cat", "dog"]},
     f"row 1: probabilities sum to 100, expected 1 (within 0.001); {PERCENT}"),
    ("a suffix", "a.csv", SUFFIX, {},
     "sum to 100: percentages? Add --probs 'P(*) [%]' --normalise always"),
    ("logits", "a.csv", SCORES, {}, f"Columns cat, dog are below 0 or above 1: {LOGITS}"),
    ("logits by name", "a.csv", SCORES, {"classes": ["cat", "dog"]},
     f"row 1: the probability of class 'cat' is -0.58; {LOGITS}"),
    ("logits in lists", "a.jsonl", lines({"probs": [-0.58, 1.2], "label": 0}), {}, LOGITS),
    ("two lists", "a.jsonl", lines({"one": [0.5, 0.5], "two": [0.5, 0.5], "label": 0}), {},
     "Column 'one' holds 2 numbers a row: --probs 'one'?"),
    ("an embedding", "a.jsonl", lines({"vector": [0.5, 3.5, -2], "label": 0}), {},
     "Column 'vector' holds 3 numbers a row: --probs 'vector'?"),
    ("transformers, lines", "a.jsonl", lines(TWO, TWO), {}, LABELS_NEEDED),
    ("transformers, lines of one text each", "a.jsonl", lines([TWO], [TWO]), {}, LABELS_NEEDED),
    ("transformers, all texts", "a.json", json.dumps([TWO, TWO]), {}, LABELS_NEEDED),
    ("transformers, the best, all texts", "a.json", json.dumps([BEST[0], BEST[0]]), {}, BEST_ALONE),
    ("transformers, the best, lines", "a.jsonl", lines(*BEST, *BEST), {}, BEST_ALONE),
    ("names of classes as labels", "a.jsonl", lines({
        "probs": [0.4, 0.6], "label": ["cat", "dog"], "target": "cat"}), {},
     "The names of the classes? Add --label target?"),
    ("of two classes one, and the best", "a.jsonl", lines({
        "score": 0.4, "predicted_label": 1, "label": 0}), {},
     "or --probs 'score', if that is the second of two classes"),
    ("labels from 1", "a.jsonl", lines({"probs": [0.4, 0.6], "label": 1},
                                       {"probs": [0.4, 0.6], "label": 2}), {},
     "row 2: label 2 is none of the 2 classes: 0, 1. Counted from 1? Add --classes 1,2"),
    ("many labels from 1", "a.jsonl", lines({"probs": [0.01] * 100, "label": 100}), {},
     'Add --classes "$(seq -s, 1 100)"'),
    ("labels -1 and 1", "a.csv", "probs,label\n.4,-1\n.6,1\n", {},
     "row 1: label '-1' is none of the 2 classes: 0, 1. The first of two classes? Add --classes=-1,"
     ),
    ("labels nobody knows", "a.csv", "cat,dog,label\n.4,.6,?\n.4,.6,cat\n", {},
     """Such a label is left empty, null or NA: awk -F, -v OFS=, '$3 == "?" { $3 = "" } 1' """),
    ("other numbers", "a.tsv", "0\t1\tlabel\n.4\t.6\t-1\n.4\t.6\t0\n", {},
     "null or NA: awk -F'\\t' -v OFS='\\t' '$3 == \"-1\" { $3 = \"\" } 1' "),
    ("in lines", "a.jsonl", lines({"probs": [0.4, 0.6, 0], "label": -1}), {},
     """jq -c 'if .["label"] | tostring == "-1" then .["label"] = null else . end' """),
    ("log probabilities of tokens", "a.jsonl", lines({
        "probs": [{"token": "a", "logprob": -0.1}, {"token": "b", "logprob": -3}], "label": "a"}),
     {}, "row 1: entry 1 has no field 'label', expected label and score; log probabilities"),
    ("a list cut off", "a.jsonl", '{"probs": [0.5', {}, "line 1: not a JSON object: it ends too"),
    ("transformers, the best, in a field", "a.jsonl",
     lines({"text": "x", "probs": BEST, "label": "neg"}), {}, BEST_ALONE),
    ("the best and how sure", "a.csv", "predicted,confidence,label\ncat,.9,cat\n", {},
     "the probabilities of all classes are needed: a column for each class, or one column of lists;"
     " or --probs 'confidence', if that is the second of two classes"),
    ("no header", "a.csv", "0.25,0.75,cat\n0.5,0.5,dog\n", {},
     "The first line holds numbers: a header is missing"),
    ("classes are numbers, labels of another name", "a.csv", "0,1,2,target\n-3,1,2,0\n", {},
     "no column 'label' for label; the file has 0, 1, 2, target. Add --label target?"),
    ("classes are numbers, logits", "a.csv", "0,1,2,target\n-3,1,2,0\n", {"label": "target"},
     f"Columns 0, 1, 2 are below 0 or above 1: {LOGITS}"),
    ("the best class and its score", "a.csv", "pred,score,label\n1,.8,1\n", {},
     "the probabilities of all classes are needed: a column for each class, or one column of lists;"
     " or --probs 'score', if that is the second of two classes"),
    ("two that fit", "a.csv", "p_a,p_b,q_a,q_b,label\n.4,.6,.3,.7,a\n", {},
     "could be p_a, p_b (--probs 'p_*') or q_a, q_b (--probs 'q_*'); which are they?"),
    ("blanks after commas", "a.csv", "cat, dog, label\n.5, .5, cat\n", {}, "blanks around names"),
    ("other labels in capitals", "a.csv", "CAT,DOG,TARGET\n.5,.5,cat\n", {},
     "Add --label TARGET?"),
    ("JSON within a text", "a.jsonl", lines({"ts": 1, "value": '{"probs": [0.5, 0.5]}'}), {},
     "'value' holds JSON as text: jq -c '.value | fromjson' FILE"),
    ("an object on several lines", "a.jsonl", '{\n "probs": [0.5, 0.5],\n "label": 0\n}\n', {},
     "does an object stand on several lines? One a line: jq -c . FILE"),
    ("a table by columns", "a.json", '{"a": {"0": 0.5, "1": 0.4}, "label": {"0": "a", "1": "a"}}',
     {}, "pd.read_json({file!r}, orient='columns').to_json('rows.jsonl', orient='records', lines"),
    ("pandas, index", "a.json", '{"0": {"a": 0.5, "label": "a"}, "1": {"a": 1, "label": "a"}}', {},
     "pd.read_json({file!r}, orient='index').to_json("),
    ("pandas, split", "a.json", '{"columns": ["a"], "index": [0], "data": [[0.5]]}', {},
     "pd.read_json({file!r}, orient='split').to_json("),
    ("pandas, table", "a.json", '{"schema": {"fields": []}, "data": [{"a": 0.5}]}', {},
     "pd.read_json({file!r}, orient='table').to_json("),
    ("pandas, values", "a.json", '[[0.5, 0.5, "cat"], [0.4, 0.6, "dog"]]', {},
     "orient='values').set_axis(['CLASS', 'CLASS', 'label'], axis=1).to_json("),
    ("the best of transformers", "a.jsonl", lines({"prediction": BEST[0], "label": "neg"}), {},
     "Column 'prediction' has the best class alone, and all are needed: a pipeline of"),
    ("that by name", "a.jsonl", lines({"prediction": BEST[0], "label": "neg"}),
     {"probs": "prediction"}, BEST_ALONE),
    ("several rows of V2", "a.jsonl", lines(BATCH), {}, f"2 rows on a line; {EACH_OF_V2}"),
    ("those by name", "a.jsonl", lines(BATCH), {"probs": "r"}, EACH_OF_V2),
    ("several rows in a list", "a.jsonl", lines({"p": [[0.5, 0.5], [0.4, 0.6]], "label": [0, 1]}),
     {}, "2 rows on a line; a line each: jq -c '. as $line | .p as $rows | range($rows | length)"),
    ("a row for each class", "a.csv", LONG, {}, "A row for each class (column 'class')?"),
    ("the command", "a.csv", LONG, {},
     "pl.read_csv({file!r}).pivot('class', index=['n', 'label'], values='prob').write_csv("),
    ("NaN in JSON", "a.jsonl", '{"probs": [0.5, 0.5], "label": NaN}\n', {}, "write null"),
    ("more fields than names", "a.csv", "cat,dog,label\n.5,.5,cat,x\n", {},
     "a line has more fields than the header"),
    ("a decimal comma", "a.csv", "cat,dog,label\n" + 1500 * ".5,.5,cat\n" + '"0,5",.5,cat\n', {},
     "row 1501: column 'cat' holds '0,5', expected a number"),
    ("labels of another name", "a.csv", "cat,dog,y_true\n.25,.75,cat\n", {}, "Add --label y_true?"),
    ("no labels", "a.csv", "cat,dog\n.25,.75\n", {}, "no column 'label' for label"),
    ("an unknown label", "a.csv", "cat,dog,label\n.25,.75,cow\n", {},
     "row 1: label 'cow' is none of the 2 classes"),
    ("a gap", "a.csv", "probs_a,probs_b,label\n.5,.5,a\n,,b\n", {},
     "row 2: the probability of class 'a' is missing"),
    ("UTF-16", "a.csv", "probs_a,label\n".encode("utf-16"), {}, "UTF-16 text (save it as UTF-8)"),
    ("Excel", "a.xlsx", b"PK\x03\x04", {}, "an Excel file; save its sheet as CSV"),
    ("Excel by another name", "a.csv", b"PK\x03\x04..[Content_Types].xml", {}, "an Excel file"),
    ("nothing", "a.csv", "", {}, "the file is empty"),
    ("a header twice", "a.csv", "cat,dog,cat,label\n.2,.5,.3,cat\n", {},
     "two columns have the header 'cat'"),
    ("a header alone", "a.csv", "probs_a,probs_b,label\n", {}, "no rows, only the header"),
]  # fmt: skip


def written(folder, name, data):
    file = folder / name
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return file


@pytest.mark.parametrize(
    ("name", "data", "options", "classes", "column"),
    [case[1:] for case in FOUND],
    ids=[case[0] for case in FOUND],
)
def test_it_is_read(tmp_path, name, data, options, classes, column):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        recording = Recording(written(tmp_path, name, data), **options)
        (chunk,) = recording.chunks()
    assert recording.classes == classes
    assert abs(chunk.P.sum(axis=1) - 1).max() < 1e-9
    assert (chunk.y >= 0).all()
    expected = [] if column is None else [f"{recording.name}: {TAKEN.format(column)}"]
    assert [str(one.message) for one in said] == expected


@pytest.mark.parametrize(
    ("name", "data", "options", "says"),
    [case[1:] for case in REFUSED],
    ids=[case[0] for case in REFUSED],
)
def test_the_error_says_what_to_do(tmp_path, name, data, options, says):
    file = written(tmp_path, name, data)
    with pytest.raises(StreamCANError) as error:
        list(Recording(file, **options).chunks())
    assert str(error.value).startswith(f"{file}: ")
    assert says.replace("{file!r}", repr(str(file))) in str(error.value)


@pytest.mark.parametrize("parts", [["cat,dog,label\n.5,.5,cat", "cat,dog,label\r\n.3,.7,dog\n"],
                                   ["cat,dog,label\n.5,.5,cat\n.3,.7,dog\n", ""]])  # fmt: skip
def test_a_folder_of_csv_parts_is_read(tmp_path, parts):
    folder = tmp_path / "a"
    folder.mkdir()
    for k, part in enumerate(parts):
        written(folder, f"part-{k}.csv", part)
    written(folder, "_SUCCESS", "")
    (chunk,) = Recording(folder).chunks()
    assert chunk.P.tolist() == [[0.5, 0.5], [0.3, 0.7]]
    assert chunk.y.tolist() == [0, 1]


def test_its_parts_have_one_header(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    for k, names in enumerate(["cat,dog,label", "dog,cat,label"]):
        written(folder, f"{k}.csv", f"{names}\n.5,.5,cat\n")
    with pytest.raises(StreamCANError, match=r"1\.csv begins with another line than 0\.csv"):
        Recording(folder)


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")
@pytest.mark.parametrize(
    ("name", "data", "made"), [("a.jsonl", lines(BATCH), "rows.jsonl"), ("a.csv", LONG, "rows.csv")]
)
def test_the_command_of_the_error_runs(tmp_path, name, data, made):
    file = written(tmp_path, name, data)
    with pytest.raises(StreamCANError) as error:
        Recording(file)
    text = str(error.value)
    command = text[text.index("jq -c" if "jq -c" in text else "python -c") :]
    command = command.replace("FILE", str(file)).replace("python", sys.executable)
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    (chunk,) = Recording(tmp_path / made).chunks()
    assert len(chunk.P) == 2
    assert chunk.y.tolist() == [0, 1]


def test_lines_that_are_arrays_hold_the_probabilities_alone(tmp_path):
    """As far as they can be replayed: with labels of their own, by a field that joins them."""
    for rows in ((TWO, TWO), ([TWO], [TWO])):
        file = written(tmp_path, "a.jsonl", lines(*rows))
        with pytest.raises(StreamCANError, match="labels are needed"):
            Recording(file)
    mixed = lines({"probs": TWO, "label": "neg"}, TWO)
    with pytest.raises(StreamCANError, match="line 2: not a JSON object: it is a list"):
        list(Recording(written(tmp_path, "b.jsonl", mixed)).chunks())


def test_the_command_says_which_column_it_took(tmp_path):
    rows = [{"scores": [0.9, 0.1], "label": i % 2} for i in range(50)]
    file = written(tmp_path, "a.jsonl", lines(*rows))
    command = [sys.executable, "-m", "stream_can", "replay", file, "--label-delay", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert f"stream-can: {file}: {TAKEN.format('scores')}\n" in done.stderr
    assert "UserWarning" not in done.stderr
