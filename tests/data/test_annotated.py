"""What annotation tools export: doccano, Label Studio, DocBin; read exactly, or refused with the
place.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.data.corpus import WRITABLE, read_corpus, write_corpus
from hanlattice.errors import HanlatticeError, InputError
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from tests.helpers.command import hanlattice
from tests.helpers.strategies import sentences, shares_folder

TEXT = "南京市😀长江大桥"
GOLD = Sentence(TEXT, (Span(0, 3, "LOC"), Span(4, 8, "LOC")))
SPACY = "spacy is not installed: pip install 'hanlattice[spacy]'"
plain = st.characters(
    exclude_categories=["Cs"], exclude_characters="\n\r"
)  # what every one of these files can carry
some = st.lists(
    sentences(plain, st.sampled_from(["LOC", "PER.NAM", "组织-A"])), min_size=1, max_size=4
)


def write(path: Path, content: object) -> Path:
    text = (
        content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1)
    )
    path.write_text(text, "utf-8", newline="")
    return path


def refused(path: Path, *parts: str, line: int | None = None) -> None:
    with pytest.raises(InputError) as caught:
        read_corpus(path)
    assert caught.value.line == line, caught.value
    assert len(caught.value.message) < 500
    for part in parts:
        assert part in str(caught.value), caught.value


# ---- doccano


@pytest.mark.parametrize(
    "record",
    [
        {"id": 1, "text": TEXT, "label": [[4, 8, "LOC"], [0, 3, "LOC"]], "Comments": []},
        {"id": 1, "data": TEXT, "label": [[0, 3, "LOC"], [4, 8, "LOC"]]},
        {"text": TEXT, "labels": [[0, 3, "LOC"], [4, 8, "LOC"]]},
        {
            "text": TEXT,
            "entities": [
                {"id": 7, "label": "LOC", "start_offset": 0, "end_offset": 3},
                {"id": 8, "label": "LOC", "start_offset": 4, "end_offset": 8},
            ],
            "relations": [],
        },
    ],
)
def test_doccano(tmp_path: Path, record: dict[str, object]) -> None:
    path = write(tmp_path / "admin.jsonl", json.dumps(record) + "\n")
    assert read_corpus(path).sentences == (GOLD,)


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ([[0, 3, "LOC"], [2, 5, "PER"]], "the spans [0, 3) LOC and [2, 5) PER overlap"),
        ([[0, 99, "LOC"]], "[0, 99) does not lie in the text of 8 characters"),
        ([[0, "LOC"]], "a span must be an object"),
        ([[0, 3, 5]], '"label" of a span must be a str, not int'),
        ("positive", 'doccano\'s "label"'),
    ],
)
def test_doccano_with_something_wrong(tmp_path: Path, label: object, said: str) -> None:
    good = json.dumps({"text": "好", "label": []})
    path = write(tmp_path / "a.jsonl", f"{good}\n{json.dumps({'text': TEXT, 'label': label})}\n")
    refused(path, "a.jsonl", said, line=2)


# ---- Label Studio


def region(start: int, end: int, label: str = "LOC", text: str | None = None) -> dict[str, object]:
    value = {"start": start, "end": end, "labels": [label]} | (
        {} if text is None else {"text": text}
    )
    return {"from_name": "label", "to_name": "text", "type": "labels", "value": value}


def task(
    *results: list[dict[str, object]], text: str = TEXT, **others: object
) -> dict[str, object]:
    return {
        "id": 5,
        "data": {"text": text},
        "annotations": [{"result": result} for result in results],
        **others,
    }


def test_label_studio_in_code_points_and_in_utf_16(tmp_path):
    points = task([region(0, 3, text="南京市"), region(4, 8, text="长江大桥")])
    units = task([region(0, 3, text="南京市"), region(5, 9, text="长江大桥")])
    corpus = read_corpus(write(tmp_path / "export.json", [points, units]))
    assert corpus.sentences == (GOLD, GOLD)
    assert not corpus.notices
    small = [
        {
            "id": 1,
            "text": TEXT,
            "label": [{"start": 0, "end": 3, "labels": ["LOC"]}, region(4, 8)["value"]],
        }
    ]
    assert read_corpus(write(tmp_path / "min.json", small)).sentences == (GOLD,)


def test_label_studio_leaves_out_what_nobody_annotated(tmp_path):
    tasks = [
        task(),
        task([], [region(0, 3)]),
        {
            "id": 6,
            "data": {"text": TEXT},
            "annotations": [{"was_cancelled": True, "result": [region(0, 3)]}],
        },
        {
            "id": 7,
            "data": {"body": "一\n二", "n": 3},
            "annotations": [{"result": [region(0, 3, text="一\\n二")]}],
        },
    ]
    corpus = read_corpus(write(tmp_path / "export.json", tasks))
    assert corpus.sentences == (Sentence(TEXT, ()), Sentence("一\n二", (Span(0, 3, "LOC"),)))
    assert [notice.rpartition(" ")[2] for notice in corpus.notices] == ["2", "1"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (task([region(0, 3), region(2, 4)]), "task 5: the spans [0, 3) LOC and [2, 4) LOC overlap"),
        (task([region(0, 30)]), "does not lie in the text of 8 characters"),
        (task([region(0, 3, text="北京市")]), "its offsets give '南京市'"),
        (
            task([{"type": "labels", "value": {"start": 0, "end": 1, "labels": ["A", "B"]}}]),
            "one label",
        ),
        (task([{"type": "labels"}]), "one label"),
        ({"id": 5, "data": {"a": "x", "b": "y"}, "annotations": []}, 'must have a string "text"'),
        ({"id": 5, "data": [], "annotations": []}, 'must have a string "text"'),
        ({"id": 5, "data": {"text": "x"}, "annotations": 3}, '"annotations" must be a list'),
        (
            {"id": 5, "data": {"text": "x"}, "annotations": [{"result": 3}]},
            '"result" of an annotation',
        ),
        ({"id": 5}, 'expected "data" and "annotations"'),
        (
            {"id": 5, "data": {"text": 5, "name": "x"}, "annotations": []},
            'must have a string "text"',
        ),
        (
            task([{"type": 0, "value": {"start": 0, "end": 1, "labels": ["A"]}}]),
            '"type" of a result must be a string',
        ),
        (
            task([{"value": {"start": 0, "end": 1, "labels": ["A"]}}]),
            '"type" of a result must be a string',
        ),
        (
            {**task([]), "annotations": [{"was_cancelled": "no", "result": []}]},
            '"was_cancelled" must be true or false',
        ),
        ({"id": "x" * 9999, "data": 3, "annotations": []}, 'must have a string "text"'),
        *(
            (
                task(
                    [
                        {
                            "type": "labels",
                            "value": {
                                "start": 0,
                                "end": 1,
                                "labels": ["A"],
                                "text": "x",
                                name: value,
                            },
                        }
                    ]
                ),
                said,
            )
            for name, said in (("start", "whole numbers"), ("end", "whole numbers"))
            for value in ({}, [], "0", None, True, 1.0)
        ),
        (task([region(0, 1e400)]), "Infinity is no number in JSON"),
        (task([region(0, 10**400)]), "does not lie in the text of 8 characters"),
        (task([region(0, 3, "\ud800")]), "lone surrogate"),
        (task([region(0, 3, "x" * 257)]), "has 257 characters"),
        *(
            (
                task([{"type": "labels", "value": {"start": 0, "end": 1, "labels": [label]}}]),
                '"label"',
            )
            for label in (0, "")
        ),
        (3, "a task must be an object"),
    ],
)
def test_label_studio_with_something_wrong(tmp_path: Path, wrong: object, said: str) -> None:
    path = write(tmp_path / "export.json", f"[{json.dumps(task([]))},\n\n{json.dumps(wrong)}\n]")
    refused(path, "export.json", said, line=3)


def test_label_studio_says_what_it_leaves_out(tmp_path):
    others = [
        {"type": "choices", "value": {"choices": ["a"]}},
        {"type": "relation"},
        {"type": "relation"},
    ]
    corpus = read_corpus(
        write(tmp_path / "export.json", [task([*others, region(0, 3)]), task(others)])
    )
    assert [len(sentence.spans or ()) for sentence in corpus.sentences] == [1, 0]
    notice = "results that are no labels were left out: choices 2, relation 4"
    assert corpus.notices == (f"{tmp_path / 'export.json'}: {notice}",)


@pytest.mark.parametrize(("content", "line"), [("[{]", 1), ("[{}\n{}]", 1), ("[\n", 2), ("[3", 1)])
def test_what_is_not_json_names_its_line(tmp_path: Path, content: str, line: int) -> None:
    refused(write(tmp_path / "export.json", content), "export.json", line=line)
    refused(write(tmp_path / "export.json", "[]"), "the corpus is empty")


@pytest.mark.parametrize("more", ["x", "]", ",", "[]", json.dumps([task([])]), "\0"])
def test_nothing_may_follow_the_list_of_tasks(tmp_path: Path, more: str) -> None:
    whole = json.dumps([task([region(0, 3)])], ensure_ascii=False)
    assert len(read_corpus(write(tmp_path / "export.json", f"{whole}\n \t\r\n")).sentences) == 1
    path = write(tmp_path / "export.json", f"{whole}\n\n {more}")
    refused(path, "export.json:3: ", "after the end of the list", line=3)


# ---- spaCy


@shares_folder
@given(corpus=some)
def test_docbin_comes_back(tmp_path: Path, corpus: list[Sentence]) -> None:
    pytest.importorskip("spacy", reason=SPACY)
    try:
        write_corpus(tmp_path / "out.spacy", corpus)
    except InputError as error:
        assert "begins or ends with white space" in str(error)  # noqa: PT017 (others come back)
    else:
        assert read_corpus(tmp_path / "out.spacy").sentences == tuple(corpus)


def test_docbin_is_what_spacy_reads(tmp_path):
    spacy = pytest.importorskip("spacy", reason=SPACY)
    from spacy.tokens import DocBin

    words = tuple(
        Span(start, end, label) for start, end, label in ((0, 2, "ns"), (2, 4, "n"), (4, 8, "ns"))
    )
    write_corpus(tmp_path / "out.spacy", [Sentence(TEXT, GOLD.spans, words), GOLD])
    nlp = spacy.blank("zh")
    first, second = DocBin().from_disk(tmp_path / "out.spacy").get_docs(nlp.vocab)
    assert [(item.text, item.tag_) for item in first] == [
        ("南京", "ns"),
        ("市", "n"),
        ("😀", "n"),
        ("长江大桥", "ns"),
    ]
    assert len(second) == 8
    for doc in (first, second):
        assert [(item.start_char, item.end_char, item.label_) for item in doc.ents] == [
            (0, 3, "LOC"),
            (4, 8, "LOC"),
        ]
    built = nlp(TEXT)
    built.ents = [built.char_span(0, 3, label="LOC"), built.char_span(4, 8, label="LOC")]
    DocBin(docs=[built, nlp("")]).to_disk(tmp_path / "theirs.spacy")
    assert read_corpus(tmp_path / "theirs.spacy").sentences == (GOLD,)
    write(tmp_path / "broken.spacy", "好")
    refused(tmp_path / "broken.spacy", "not a DocBin of spaCy")
    whole = (tmp_path / "out.spacy").read_bytes()
    for content in (whole + whole, whole + b"\n", whole[:-1], b""):
        (tmp_path / "broken.spacy").write_bytes(content)
        refused(tmp_path / "broken.spacy", "not a DocBin of spaCy")


def test_without_spacy_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "spacy", None)
    with pytest.raises(HanlatticeError, match=r"pip install 'hanlattice\[spacy\]'"):
        read_corpus(write(tmp_path / "a.spacy", ""))


# ---- CoNLL-U


def test_a_word_of_conllu_may_end_with_a_space(tmp_path):
    path = write(
        tmp_path / "a.conllu", "\n".join([word("1", "好 "), "", word("1", "好 ", misc="_")])
    )
    first, second = read_corpus(path).sentences
    assert (first.text, second.text) == ("好 ", "好 ")


def word(number: str, form: str, label: str = "NOUN", misc: str = "SpaceAfter=No") -> str:
    return "\t".join([number, form, "_", label, "_", "_", "0", "_", "_", misc])


def test_conllu(tmp_path):
    rows = [
        "# text = 我去New York",
        word("1", "我", "PRON"),
        word("2", "去", "VERB"),
        word("2.1", "了"),
    ]
    rows += [
        word("3-4", "New", "_", "_"),
        word("3", "N"),
        word("4", "ew"),
        word("5", "York", "PROPN"),
        "",
        word("1", "好", "_", "x|SpaceAfter=No"),
    ]
    path = write(tmp_path / "a.conllu", "\r\n".join(rows))
    first, second = read_corpus(path).sentences
    assert (first.text, first.spans) == ("我去New York", ())
    assert [(item.start, item.end, item.label) for item in first.words or ()] == [
        (0, 1, "PRON"),
        (1, 2, "VERB"),
        (2, 5, "WORD"),
        (5, 6, "WORD"),
        (6, 10, "PROPN"),
    ]
    assert second == Sentence("好", (), (Span(0, 1, "WORD"),))
    assert read_corpus(path, learn="words").sentences[1].spans == (Span(0, 1, "WORD"),)


@pytest.mark.parametrize(
    ("rows", "said", "line"),
    [
        (["# a", "1\t好"], "ten columns", 2),
        ([word("x", "好")], "ten columns", 1),
        ([word("1", "")], "ten columns", 1),
        (["# a", "# b", "", word("1", "好")], "remarks and no word", 2),
        ([word("1", "好"), word("9" * 5000, "好")], "ten columns", 2),
        ([word("1-" + "9" * 5000, "好")], "ten columns", 1),
        ([word("1." + "9" * 5000, "好")], "ten columns", 1),
        ([word("1-2-3", "好")], "ten columns", 1),
        ([word("1-x", "好")], "ten columns", 1),
        ([word("3-2", "好")], "ten columns", 1),
        ([word("1", "好", "x" * 257)], "a label has 257 characters", 1),
        ([word("1", "好", "")], "a label must be a string that is not empty", 1),
    ],
)
def test_conllu_with_something_wrong(tmp_path: Path, rows: list[str], said: str, line: int) -> None:
    refused(write(tmp_path / "a.conllu", "\n".join(rows)), "a.conllu", said, line=line)


# ---- the command


def test_convert(tmp_path):
    write(tmp_path / "in.jsonl", json.dumps({"text": "南京市", "label": [[0, 3, "LOC"]]}))
    for name in ("b.bio", "c.bioes", "d.bmes", "e.jsonl"):
        outcome = hanlattice("data", "convert", tmp_path / "in.jsonl", tmp_path / name)
        assert (outcome.code, outcome.text) == (0, f"{tmp_path / name}: 1 sentence, 1 span\n")
        assert read_corpus(tmp_path / name).sentences == (Sentence("南京市", (Span(0, 3, "LOC"),)),)
    both = hanlattice(
        "data", "convert", tmp_path / "c.bioes", tmp_path / "b.bio", tmp_path / "both.jsonl"
    )
    assert both.text.endswith("both.jsonl: 2 sentences, 2 spans\n")
    cut = write(tmp_path / "w.seg", "南京市 长江\n")
    hanlattice("data", "convert", cut, tmp_path / "x.jsonl")
    hanlattice("data", "convert", tmp_path / "x.jsonl", tmp_path / "y.seg")
    assert (tmp_path / "y.seg").read_bytes() == cut.read_bytes()


@pytest.mark.parametrize("suffix", WRITABLE)
def test_convert_writes_the_file_that_is_named_and_no_other(tmp_path: Path, suffix: str) -> None:
    if suffix == ".spacy":
        pytest.importorskip("spacy", reason=SPACY)
    whole = {"text": "南京市", "label": [[0, 3, "LOC"]]}
    source = write(tmp_path / "in.jsonl", json.dumps(whole))
    names = {f"y{other}" for other in (*WRITABLE, ".txt", ".json", ".ann", ".tmp", ".part", "")}
    for name in names:
        write(tmp_path / name, "mine")
    assert hanlattice("data", "convert", source, tmp_path / f"y{suffix}").code == 0
    for name in names - {f"y{suffix}"}:
        assert (tmp_path / name).read_text("utf-8") == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"in.jsonl", *names}


def test_what_convert_refuses(tmp_path):
    source = write(tmp_path / "in.jsonl", json.dumps({"text": "南京市", "spans": []}))
    write_corpus(tmp_path / "a.bio", [GOLD])
    hanlattice("data", "convert", source).refused("a file to read and a file to write")
    hanlattice("data", "convert", source, tmp_path / "out.xyz").refused(
        "the suffix says what is written", ".spacy"
    )
    hanlattice("data", "convert", source, source).refused("the output is one of the files to read")
    hanlattice("data", "convert", tmp_path / "a.bio", tmp_path / "a.bio").refused(
        "one of the files to read"
    )
    hanlattice("data", "convert", tmp_path / "no.jsonl", tmp_path / "o.bio").refused(
        "no.jsonl", "no such file"
    )
