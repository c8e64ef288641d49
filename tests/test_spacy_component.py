"""The component for spaCy: entities on tokens, and everything that was found beside them."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanlattice.errors import HanlatticeError, InputError
from hanlattice.predict import Document, Predictor, load
from hanlattice.text.spans import Span
from tests.made import made_config
from tests.untrained import write_untrained

TEXT = "王小明在青石镇工作。"
FOUND = [("王小明", "PER"), ("青石镇", "LOC")]


@pytest.fixture(scope="module")
def spacy() -> Any:
    found = pytest.importorskip("spacy", reason="spacy is not installed: pip install 'hanlattice[spacy]'")
    import hanlattice.spacy_component  # noqa: F401 (an entry point imports it where hanlattice is installed)

    return found


@pytest.fixture(scope="module")
def nlp(spacy: Any, lattice_folder: Path) -> Any:
    made = spacy.blank("zh")
    made.add_pipe("hanlattice", config={"model": str(lattice_folder)})
    return made


def told(doc: Any) -> list[tuple[str, str]]:
    return [(entity.text, entity.label_) for entity in doc.ents]


class Says(Predictor):
    """A tagger that finds what it is told to find."""

    def __init__(self, model: Any, spans: list[Span]) -> None:
        super().__init__(model)
        self.spans = tuple(spans)

    def __call__(self, text: Any, *, min_score: float = 0.0) -> Any:
        return Document(text, self.spans) if isinstance(text, str) else [Document(each, self.spans) for each in text]


def words(spacy: Any, *each: str) -> Any:
    return spacy.tokens.Doc(spacy.blank("zh").vocab, words=list(each), spaces=[False] * len(each))


def component(model: Predictor, spans: list[Span], **settings: Any) -> Any:
    from hanlattice.spacy_component import HanlatticeComponent

    return HanlatticeComponent(Says(model.model, spans), **settings)


def test_entities_and_their_scores(nlp):
    doc = nlp(TEXT)
    assert told(doc) == FOUND
    assert all(0.5 < entity._.score <= 1 for entity in doc.ents)
    assert [(each["start"], each["end"], each["label"]) for each in doc._.hanlattice] == [(0, 3, "PER"), (4, 7, "LOC")]
    assert [each["score"] for each in doc._.hanlattice] == [entity._.score for entity in doc.ents]
    assert told(nlp("")) == []
    assert nlp("")._.hanlattice == []


def test_a_stream_is_tagged_in_batches(nlp, lattice_folder):
    texts = [TEXT, "", "南湖有3个人。", " ", "今天 天气\n很好"] * 3
    alone = [told(nlp(text)) for text in texts]
    assert [told(doc) for doc in nlp.pipe(texts, batch_size=4)] == alone
    sizes: list[int] = []
    pipe = nlp.get_pipe("hanlattice")
    real = pipe.tagger
    try:
        pipe.tagger = lambda batch, min_score: (sizes.append(len(batch)), real(batch, min_score=min_score))[1]
        list(nlp.pipe(texts, batch_size=4))
        pipe.batch_size = 7
        list(nlp.pipe(texts, batch_size=4))
    finally:
        pipe.tagger, pipe.batch_size = real, None
    assert sizes == [4, 4, 4, 3, 7, 7, 1]


@settings(max_examples=25)
@given(
    text=st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("王小明去了南湖 \n\t\u3000"), max_size=20)
)
def test_any_text(nlp: Any, lattice_folder: Path, text: str) -> None:
    """Every character is a token of its own, or white space: what lies on tokens is found whole."""
    doc = nlp(text)
    assert doc.text == text
    for entity in doc.ents:
        assert any(entity.start_char <= each["start"] and each["end"] <= entity.end_char for each in doc._.hanlattice)


@pytest.mark.parametrize(("alignment", "expected"), [("expand", ["王小明在青"]), ("contract", ["明"]), ("strict", [])])
def test_borders_inside_a_token(spacy, tagger, alignment, expected):
    doc = component(tagger, [Span(1, 4, "PER", 0.9)], alignment=alignment)(words(spacy, "王小", "明", "在青", "石"))
    assert [entity.text for entity in doc.ents] == expected
    assert len(doc._.hanlattice) == 1, "nothing is lost"


def test_of_two_that_want_a_token_the_more_probable_gets_it(spacy, tagger):
    spans = [Span(0, 1, "PER", 0.6), Span(1, 3, "LOC", 0.9), Span(4, 5, "LOC", 0.1)]
    doc = component(tagger, spans)(words(spacy, "王小", "明", "在青"))
    assert told(doc) == [("王小明", "LOC"), ("在青", "LOC")]
    assert [each["label"] for each in doc._.hanlattice] == ["PER", "LOC", "LOC"]


def test_a_score_is_that_of_the_entity_that_is_there(spacy, tagger):
    """spaCy keeps it by place: on one token, the less probable span must not leave its own behind."""
    doc = component(tagger, [Span(0, 1, "PER", 0.6), Span(1, 2, "LOC", 0.9)])(words(spacy, "王小", "明"))
    assert [(entity.label_, entity._.score) for entity in doc.ents] == [("LOC", 0.9)]
    doc = words(spacy, "王小", "明")
    doc.ents = [doc.char_span(0, 2, label="OLD")]
    doc = component(tagger, [Span(0, 2, "PER", 0.9)])(doc)
    assert [(entity.label_, entity._.score) for entity in doc.ents] == [("OLD", None)]


@pytest.mark.parametrize("overwrite", [False, True])
def test_entities_that_are_there_already(spacy, tagger, overwrite):
    doc = words(spacy, *"王小明在青石镇")
    doc.ents = [doc.char_span(0, 2, label="OLD"), doc.char_span(3, 4, label="OLD")]
    made = component(tagger, [Span(0, 3, "PER", 0.9), Span(4, 7, "LOC", 0.9)], overwrite_ents=overwrite)
    first = ("王小明", "PER") if overwrite else ("王小", "OLD")
    assert told(made(doc)) == [first, ("在", "OLD"), ("青石镇", "LOC")]


def test_a_pipeline_is_kept_and_read_again(spacy, lattice_folder, tmp_path):
    (tmp_path / "words.txt").write_text("红叶谷口\n", "utf-8")
    nlp = spacy.blank("zh")
    config = {"model": str(lattice_folder), "lexicon": [str(tmp_path / "words.txt")], "min_score": 0.25}
    nlp.add_pipe("hanlattice", config=config)
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    assert told(again(TEXT)) == FOUND
    pipe = again.get_pipe("hanlattice")
    assert "红叶谷口" in pipe.tagger.lexicon
    assert pipe.min_score == 0.25
    doc = nlp(TEXT)
    read = spacy.tokens.Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert read._.hanlattice == doc._.hanlattice
    assert [entity._.score for entity in read.ents] == [entity._.score for entity in doc.ents]


def test_min_score(spacy, lattice_folder):
    nlp = spacy.blank("zh")
    nlp.add_pipe("hanlattice", config={"model": str(lattice_folder), "min_score": 1.0})
    assert told(nlp(TEXT)) == []
    assert nlp(TEXT)._.hanlattice == []


def test_settings_that_make_no_sense(spacy, lattice_folder, char_folder, made, tmp_path):
    from hanlattice.data.segmented import from_words

    sentences = [from_words(["我", "爱", "南湖"])]
    cutter = write_untrained(tmp_path / "cutter", made_config(made, model__encoder="char"), sentences)
    model = str(lattice_folder)
    for config, error, why in (
        ({"model": model, "alignment": "outside"}, ValueError, "alignment must be one of expand, contract, strict"),
        ({"model": model, "batch_size": 0}, ValueError, "batch_size must be 1 or more"),
        ({"model": model, "min_score": 2.0}, ValueError, "min_score must be from 0 to 1"),
        ({"model": str(tmp_path / "none")}, HanlatticeError, "no such model"),
        ({"model": str(char_folder), "lexicon": [str(tmp_path)]}, HanlatticeError, "has no lexicon"),
        ({"model": model, "lexicon": [str(tmp_path / "no.txt")]}, InputError, "no such file"),
        ({"model": str(cutter)}, InputError, "cuts text into words"),
    ):
        with pytest.raises(error, match=why):
            spacy.blank("zh").add_pipe("hanlattice", config=config)


def test_spacy_finds_it_without_an_import(spacy, lattice_folder):
    settings = f"config={{'model': {str(lattice_folder)!r}}}"
    code = f"import spacy; nlp = spacy.blank('zh'); nlp.add_pipe('hanlattice', {settings})"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(len(nlp({TEXT!r}).ents))"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


def test_without_spacy_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    monkeypatch.setitem(sys.modules, "spacy.language", None)
    monkeypatch.delitem(sys.modules, "hanlattice.spacy_component", raising=False)
    with pytest.raises(HanlatticeError, match=r"spacy is not installed.*pip install 'hanlattice\[spacy\]'"):
        importlib.import_module("hanlattice.spacy_component")


def test_the_tagger_is_the_one_that_load_gives(nlp, lattice_folder):
    assert [span.text for span in load(lattice_folder)(TEXT).spans] == [entity.text for entity in nlp(TEXT).ents]
