"""For spaCy: entities on tokens, and everything that was found beside them; words as tokens."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanlattice.config import make_config
from hanlattice.errors import HanlatticeError, InputError
from hanlattice.predict import Document, Predictor, load
from hanlattice.text.span import Span
from hanlattice.training.loop import train
from tests.helpers.cutting import cutting_tree
from tests.helpers.made import made_config
from tests.helpers.strategies import spans as spans_of
from tests.helpers.untrained import write_untrained

TEXT = "王小明在青石镇工作。"
FOUND = [("王小明", "PER"), ("青石镇", "LOC")]


@pytest.fixture(scope="module")
def spacy() -> Any:
    found = pytest.importorskip(
        "spacy", reason="spacy is not installed: pip install 'hanlattice[spacy]'"
    )
    import hanlattice.spacy  # noqa: F401 (an entry point imports it where hanlattice is installed)

    return found


@pytest.fixture(scope="module")
def nlp(spacy: Any, lattice_folder: Path) -> Any:
    made = spacy.blank("zh")
    made.add_pipe("hanlattice", config={"model": str(lattice_folder)})
    return made


@pytest.fixture(scope="module")
def seg_folder(spacy: Any, made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained segmenter. Nobody writes into it."""
    folder = tmp_path_factory.mktemp("seg")
    changes = {"model__encoder": "lattice", "model__hidden": 16, "train__epochs": 5}
    return train(make_config(cutting_tree(made, folder, 60, **changes)), folder / "seg").folder


def cutting(spacy: Any, folder: Path, **settings: Any) -> Any:
    tokenizer = {"@tokenizers": "hanlattice.words", "model": str(folder), **settings}
    return spacy.blank("zh", config={"nlp": {"tokenizer": tokenizer}})


@pytest.fixture(scope="module")
def cutter(spacy: Any, seg_folder: Path) -> Any:
    return cutting(spacy, seg_folder)


def told(doc: Any) -> list[tuple[str, str]]:
    return [(entity.text, entity.label_) for entity in doc.ents]


class Says(Predictor):
    """A tagger that finds what it is told to find."""

    def __init__(self, model: Any, spans: list[Span]) -> None:
        super().__init__(model)
        self.spans = tuple(spans)

    def __call__(self, text: Any, *, min_score: float = 0.0) -> Any:
        return (
            Document(text, self.spans)
            if isinstance(text, str)
            else [Document(each, self.spans) for each in text]
        )


def words(spacy: Any, *each: str) -> Any:
    return spacy.tokens.Doc(spacy.blank("zh").vocab, words=list(each), spaces=[False] * len(each))


def component(model: Predictor, spans: list[Span], **settings: Any) -> Any:
    from hanlattice.spacy import HanlatticeComponent

    return HanlatticeComponent(Says(model.model, spans), **settings)


def test_entities_and_their_scores(nlp):
    doc = nlp(TEXT)
    assert told(doc) == FOUND
    assert all(0.5 < entity._.score <= 1 for entity in doc.ents)
    assert [(each["start"], each["end"], each["label"]) for each in doc._.hanlattice] == [
        (0, 3, "PER"),
        (4, 7, "LOC"),
    ]
    assert [each["score"] for each in doc._.hanlattice] == [entity._.score for entity in doc.ents]
    assert told(nlp("")) == []
    assert nlp("")._.hanlattice == []


@pytest.fixture(scope="module")
def lattice_model(lattice_folder: Path) -> Predictor:
    return load(lattice_folder)


def test_a_stream_is_tagged_in_batches(nlp, lattice_folder):
    texts = [TEXT, "", "南湖有3个人。", " ", "今天 天气\n很好"] * 3
    alone = [told(nlp(text)) for text in texts]
    assert [told(doc) for doc in nlp.pipe(texts, batch_size=4)] == alone
    sizes: list[int] = []
    pipe = nlp.get_pipe("hanlattice")
    real = pipe.tagger
    try:
        pipe.tagger = lambda batch, min_score: (
            sizes.append(len(batch)),
            real(batch, min_score=min_score),
        )[1]
        list(nlp.pipe(texts, batch_size=4))
        pipe.batch_size = 7
        list(nlp.pipe(texts, batch_size=4))
    finally:
        pipe.tagger = real
        pipe.batch_size = None
    assert sizes == [4, 4, 4, 3, 7, 7, 1]


spacy_text = st.text(
    st.characters(exclude_categories=["Cs"])
    | st.sampled_from("王小明去了南湖 \n\t\u3000\0\x85\u202e👍🏽"),
    max_size=20,
)


@settings(max_examples=25)
@given(text=spacy_text)
def test_any_text(nlp: Any, lattice_folder: Path, text: str) -> None:
    """Every character is a token of its own, or white space: what lies on tokens is found whole."""
    doc = nlp(text)
    assert doc.text == text
    for entity in doc.ents:
        assert any(
            entity.start_char <= each["start"] and each["end"] <= entity.end_char
            for each in doc._.hanlattice
        )


@pytest.mark.parametrize(
    ("alignment", "expected"),
    [("expand", ["王小明在青"]), ("contract", ["明"]), ("strict", []), ("split", ["小明在"])],
)
def test_borders_inside_a_token(spacy, tagger, alignment, expected):
    doc = component(tagger, [Span(1, 4, "PER", 0.9)], alignment=alignment)(
        words(spacy, "王小", "明", "在青", "石")
    )
    assert [entity.text for entity in doc.ents] == expected
    assert len(doc._.hanlattice) == 1, "nothing is lost"
    cut = (
        ["王", "小", "明", "在", "青", "石"]
        if alignment == "split"
        else ["王小", "明", "在青", "石"]
    )
    assert [token.text for token in doc] == cut


@st.composite
def tokens_and_spans(draw: st.DrawFn) -> tuple[list[str], list[bool], list[Span]]:
    """Tokens of any length, some with a space after them, and spans that begin and end anywhere."""
    tokens = draw(st.lists(st.text("王小明在青石", min_size=1, max_size=4), min_size=1, max_size=6))
    spaces = draw(st.lists(st.booleans(), min_size=len(tokens), max_size=len(tokens)))
    length = sum(map(len, tokens)) + sum(spaces)
    found = draw(spans_of(length, st.sampled_from(["PER", "LOC"])))
    return (
        tokens,
        spaces,
        [Span(span.start, span.end, span.label, draw(st.floats(0.01, 1))) for span in found],
    )


def borders(doc: Any) -> set[int]:
    return {edge for token in doc for edge in (token.idx, token.idx + len(token))}


@settings(max_examples=60)
@given(drawn=tokens_and_spans())
def test_split_gives_exactly_what_was_found(
    spacy: Any, lattice_model: Predictor, drawn: Any
) -> None:
    """But for the space after a token, which is part of none, and so of no entity's end."""
    tokens, spaces, found = drawn
    doc = spacy.tokens.Doc(spacy.blank("zh").vocab, tokens, spaces)
    text = doc.text
    before = borders(doc)
    doc = component(lattice_model, found, alignment="split")(doc)
    assert doc.text == text
    places = [(text[span.start : span.end].strip(" "), span.label, span.score) for span in found]
    assert [(e.text, e.label_, e._.score) for e in doc.ents] == [
        place for place in places if place[0]
    ]
    assert all(
        any(span.start <= e.start_char and e.end_char <= span.end for span in found)
        for e in doc.ents
    )
    assert borders(doc) <= before.union(*((span.start, span.end) for span in found)), (
        "no other token is cut"
    )
    assert all(token.head == token for token in doc)
    assert not doc.has_annotation("DEP")


@settings(max_examples=30)
@given(drawn=tokens_and_spans())
def test_expand_takes_whole_tokens_by_falling_probability(
    spacy: Any, lattice_model: Predictor, drawn: Any
) -> None:
    tokens, spaces, found = drawn
    doc = component(lattice_model, found)(spacy.tokens.Doc(spacy.blank("zh").vocab, tokens, spaces))
    taken: set[int] = set()
    expected = []
    for span in sorted(found, key=lambda span: (-(span.score or 0), span.start)):
        mine = {
            token.i for token in doc if token.idx < span.end and span.start < token.idx + len(token)
        }
        if mine and not mine & taken:
            taken |= mine
            expected.append((min(mine), max(mine) + 1, span.label, span.score))
    assert [(e.start, e.end, e.label_, e._.score) for e in doc.ents] == sorted(expected)
    assert [(each["start"], each["end"], each["score"]) for each in doc._.hanlattice] == [
        (span.start, span.end, span.score) for span in found
    ], "nothing is lost"


def test_split_leaves_entities_that_are_there(spacy, tagger):
    doc = words(spacy, "王小", "明在", "青石")
    doc.ents = [
        spacy.tokens.Span(doc, 0, 1, label="OLD", kb_id="Q1", span_id="x"),
        doc.char_span(4, 6, label="NEXT"),
    ]
    found = [Span(1, 3, "PER", 0.9), Span(5, 6, "LOC", 0.8)]
    again = pickle.loads(pickle.dumps(doc))
    doc = component(tagger, found, alignment="split")(doc)
    assert [token.text for token in doc] == ["王", "小", "明", "在", "青", "石"]
    assert [(e.text, e.label_, e.kb_id_, e.id_) for e in doc.ents] == [
        ("王小", "OLD", "Q1", "x"),
        ("青石", "NEXT", "", ""),
    ]
    doc = component(tagger, found, alignment="split", overwrite_ents=True)(again)
    assert told(doc) == [("小明", "PER"), ("石", "LOC")]
    doc = words(spacy, "王小", "明在")
    doc.ents = [spacy.tokens.Span(doc, 1, 2, label="OLD", kb_id="Q1", span_id="x")]
    doc = component(tagger, [Span(0, 1, "PER", 0.9)], alignment="split")(doc)
    assert [(token.text, token.ent_type_, token.ent_kb_id_, token.ent_id_) for token in doc] == [
        *(("王", "PER", "", ""), ("小", "", "", ""), ("明在", "OLD", "Q1", "x"))
    ]


def test_split_comes_before_what_annotates_tokens(spacy, tagger):
    cut = component(tagger, [Span(1, 3, "PER", 0.9)], alignment="split")
    for name, value in (("tag_", "N"), ("lemma_", "王"), ("dep_", "x"), ("is_sent_start", True)):
        doc = words(spacy, "王小", "明在")
        setattr(doc[1], name, value)
        with pytest.raises(ValueError, match="put hanlattice before the components that set those"):
            cut(doc)
    doc = words(spacy, "王小", "明在")
    doc.spans["mine"] = [doc[0:1]]
    with pytest.raises(ValueError, match=r"alignment='split' cuts tokens, and these already have"):
        cut(doc)
    for single in ((), ("王小明",)):
        assert cut(words(spacy, *single)).text == "".join(single)


def test_of_two_that_want_a_token_the_more_probable_gets_it(spacy, tagger):
    spans = [Span(0, 1, "PER", 0.6), Span(1, 3, "LOC", 0.9), Span(4, 5, "LOC", 0.1)]
    doc = component(tagger, spans)(words(spacy, "王小", "明", "在青"))
    assert told(doc) == [("王小明", "LOC"), ("在青", "LOC")]
    assert [each["label"] for each in doc._.hanlattice] == ["PER", "LOC", "LOC"]


def test_a_score_is_that_of_the_entity_that_is_there(spacy, tagger):
    """spaCy stores scores by place, so a less probable span on the same token must leave none."""
    doc = component(tagger, [Span(0, 1, "PER", 0.6), Span(1, 2, "LOC", 0.9)])(
        words(spacy, "王小", "明")
    )
    assert [(entity.label_, entity._.score) for entity in doc.ents] == [("LOC", 0.9)]
    doc = words(spacy, "王小", "明")
    doc.ents = [doc.char_span(0, 2, label="OLD")]
    doc = component(tagger, [Span(0, 2, "PER", 0.9)])(doc)
    assert [(entity.label_, entity._.score) for entity in doc.ents] == [("OLD", None)]


@pytest.mark.parametrize("overwrite", [False, True])
def test_entities_that_are_there_already(spacy, tagger, overwrite):
    doc = words(spacy, *"王小明在青石镇")
    doc.ents = [doc.char_span(0, 2, label="OLD"), doc.char_span(3, 4, label="OLD")]
    made = component(
        tagger, [Span(0, 3, "PER", 0.9), Span(4, 7, "LOC", 0.9)], overwrite_ents=overwrite
    )
    first = ("王小明", "PER") if overwrite else ("王小", "OLD")
    assert told(made(doc)) == [first, ("在", "OLD"), ("青石镇", "LOC")]


def test_a_pipeline_is_kept_and_read_again(spacy, lattice_folder, tmp_path):
    (tmp_path / "words.txt").write_text("红叶谷口\n", "utf-8")
    nlp = spacy.blank("zh")
    config = {
        "model": str(lattice_folder),
        "lexicon": [str(tmp_path / "words.txt")],
        "min_score": 0.25,
    }
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
    from hanlattice.data.formats.segmented import from_words

    sentences = [from_words(["我", "爱", "南湖"])]
    cutter = write_untrained(
        tmp_path / "cutter", made_config(made, model__encoder="char"), sentences
    )
    model = str(lattice_folder)
    for config, error, why in (
        (
            {"model": model, "alignment": "outside"},
            ValueError,
            "alignment must be one of expand, contract, strict",
        ),
        ({"model": model, "batch_size": 0}, ValueError, "batch_size must be 1 or more"),
        ({"model": model, "min_score": 2.0}, ValueError, "min_score must be from 0 to 1"),
        ({"model": str(tmp_path / "none")}, HanlatticeError, "no such model"),
        (
            {"model": str(char_folder), "lexicon": [str(tmp_path)]},
            HanlatticeError,
            "has no lexicon",
        ),
        ({"model": model, "lexicon": [str(tmp_path / "no.txt")]}, InputError, "no such file"),
        ({"model": str(cutter)}, InputError, "cuts text into words"),
    ):
        with pytest.raises(error, match=why):
            spacy.blank("zh").add_pipe("hanlattice", config=config)


def test_spacy_finds_it_without_an_import(spacy, lattice_folder):
    settings = f"config={{'model': {str(lattice_folder)!r}}}"
    code = f"import spacy; nlp = spacy.blank('zh'); nlp.add_pipe('hanlattice', {settings})"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(len(nlp({TEXT!r}).ents))"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


def test_without_spacy_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    monkeypatch.setitem(sys.modules, "spacy.language", None)
    monkeypatch.delitem(sys.modules, "hanlattice.spacy", raising=False)
    with pytest.raises(
        HanlatticeError, match=r"spacy is not installed.*pip install 'hanlattice\[spacy\]'"
    ):
        importlib.import_module("hanlattice.spacy")


def test_the_tagger_is_the_one_that_load_gives(nlp, lattice_folder):
    assert [span.text for span in load(lattice_folder)(TEXT).spans] == [
        entity.text for entity in nlp(TEXT).ents
    ]


# ---- words as tokens


@settings(max_examples=30)
@given(text=spacy_text)
def test_tokens_are_the_words_and_the_text_is_as_given(spacy: Any, cutter: Any, text: str) -> None:
    doc = cutter(text)
    assert doc.text == text
    found = [text[span.start : span.end] for span in cutter.tokenizer.segmenter(text).spans]
    assert [token.text for token in doc if not token.is_space] == found
    tokens, spaces = spacy.util.get_words_and_spaces(found, text)
    assert [token.text for token in doc] == tokens
    assert [bool(token.whitespace_) for token in doc] == spaces


def test_the_words_are_those_of_load(cutter, seg_folder):
    doc = cutter(TEXT)
    assert [token.text for token in doc] == [span.text for span in load(seg_folder)(TEXT).spans]
    assert [token.text for token in doc][:3] == ["王小明", "在", "青石镇"]
    white = "  王小明\n在 青石镇\u3000 \t工作。 "
    assert [token.text_with_ws for token in cutter(white)] == [
        *("  ", "王小明", "\n", "在 ", "青石镇", "\u3000 \t", "工作", "。 ")
    ]
    assert [len(cutter(text)) for text in ("", " ", "\n\n")] == [0, 1, 1]


def test_lone_surrogates_are_refused_as_spacy_refuses_them(spacy, cutter):
    for nlp in (spacy.blank("zh"), cutter):
        with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
            nlp("王\ud800")


def test_a_stream_of_texts(spacy, cutter, seg_folder):
    texts = [TEXT, "", "南湖有3个人。", " ", "今天 天气\n很好"] * 3
    alone = [[token.text_with_ws for token in cutter(text)] for text in texts]

    def tokens(docs: Any) -> list[list[str]]:
        return [[token.text_with_ws for token in doc] for doc in docs]

    assert tokens(cutter.pipe(texts)) == alone
    assert tokens(cutter.pipe(cutter.tokenizer.pipe(texts))) == alone
    assert (
        tokens(doc for doc, _ in cutter.pipe(zip(texts, range(99), strict=False), as_tuples=True))
        == alone
    )
    tokenizer = cutting(spacy, seg_folder, batch_size=7).tokenizer
    taken: list[int] = []
    came = iter(tokenizer.pipe(text for text in texts if taken.append(1) is None))
    next(came)
    assert len(taken) == 7, "no more than a batch is read ahead"
    assert len(list(came)) == len(texts) - 1
    with pytest.raises(TypeError, match="pipe takes texts"):
        tokenizer.pipe(TEXT)


def test_a_tokenizer_is_kept_and_read_again(spacy, seg_folder, tmp_path):
    (tmp_path / "words.txt").write_text("在青石镇工作\n", "utf-8")
    nlp = cutting(
        spacy, seg_folder, lexicon=[str(tmp_path / "words.txt")], trust=50.0, batch_size=3
    )
    expected = ["王小明", "在青石镇工作", "。"]
    assert [token.text for token in nlp(TEXT)] == expected, "the dictionary's word is a word"
    nlp.to_disk(tmp_path / "pipeline")
    blank = type(nlp).from_config(nlp.config)
    for again in (
        spacy.load(tmp_path / "pipeline"),
        blank.from_bytes(nlp.to_bytes()),
        blank.from_disk(tmp_path / "pipeline"),
        pickle.loads(pickle.dumps(nlp)),
    ):
        assert [token.text for token in again(TEXT)] == expected
        assert (again.tokenizer.segmenter.trust, again.tokenizer.batch_size) == (50.0, 3)
        assert again.tokenizer.vocab is again.vocab


def test_a_word_that_is_added_counts_at_once(spacy, seg_folder):
    nlp = cutting(spacy, seg_folder)
    before = [token.text for token in nlp(TEXT)]
    nlp.tokenizer.segmenter.lexicon.add("在青石镇工作")
    nlp.tokenizer.segmenter.trust = 50.0
    after = [token.text for token in nlp(TEXT)]
    assert before != after == ["王小明", "在青石镇工作", "。"]
    assert [token.text for token in pickle.loads(pickle.dumps(nlp))(TEXT)] == after


@pytest.mark.parametrize("alignment", ["expand", "strict", "split"])
def test_words_and_entities_together(spacy, seg_folder, lattice_folder, tmp_path, alignment):
    """A word holds an entity and more: expand the entity, drop it, or cut the word."""
    (tmp_path / "words.txt").write_text("在青石镇工作\n", "utf-8")
    nlp = cutting(spacy, seg_folder, lexicon=[str(tmp_path / "words.txt")], trust=50.0)
    nlp.add_pipe("hanlattice", config={"model": str(lattice_folder), "alignment": alignment})
    place = {"expand": [("在青石镇工作", "LOC")], "strict": [], "split": [("青石镇", "LOC")]}[
        alignment
    ]
    docs = [nlp(TEXT), *nlp.pipe([TEXT]), *nlp.pipe(nlp.tokenizer.pipe([TEXT]))]
    for doc in docs:
        assert told(doc) == [("王小明", "PER"), *place]
        assert [(each["start"], each["end"]) for each in doc._.hanlattice] == [(0, 3), (4, 7)], (
            "nothing is lost"
        )
        assert doc.text == TEXT
    cut = ["在", "青石镇", "工作"] if alignment == "split" else ["在青石镇工作"]
    assert [token.text for token in docs[0]] == ["王小明", *cut, "。"]


def test_other_parts_of_spacy_take_the_tokenizer(spacy, cutter):
    nlp = pickle.loads(pickle.dumps(cutter))
    nlp.initialize()  # Chinese has settings there for a tokenizer of its own
    for tokens, is_right in (([token.text for token in nlp(TEXT)], True), (list(TEXT), False)):
        gold = spacy.tokens.Doc(nlp.vocab, tokens, [False] * len(tokens))
        score = nlp.evaluate([spacy.training.Example(nlp.make_doc(TEXT), gold)])["token_f"]
        assert (score == 1.0) is is_right


def test_settings_of_the_tokenizer_that_make_no_sense(spacy, seg_folder, lattice_folder, tmp_path):
    for config, error, why in (
        ({"batch_size": 0}, ValueError, "batch_size must be 1 or more"),
        ({"batch_size": "3"}, TypeError, "batch_size must be an int, not str"),
        ({"trust": -1.0}, ValueError, "trust must be from 0 to 1000"),
        ({"model": str(tmp_path / "none")}, HanlatticeError, "no such model"),
        (
            {"model": str(lattice_folder)},
            InputError,
            "finds entities; the tokenizer needs a model that cuts text",
        ),
        ({"lexicon": [str(tmp_path / "no.txt")]}, InputError, "no such file"),
        ({"lexicon": "words.txt"}, ValueError, "lexicon"),
        ({"modle": "seg"}, ValueError, "modle"),
    ):
        with pytest.raises(error, match=why):
            cutting(spacy, **{"folder": seg_folder, **config})


def test_spacy_finds_the_tokenizer_without_an_import(spacy, seg_folder):
    tokenizer = {"@tokenizers": "hanlattice.words", "model": str(seg_folder)}
    code = (
        f"import spacy; nlp = spacy.blank('zh', config={{'nlp': {{'tokenizer': {tokenizer!r}}}}})"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(nlp({TEXT!r})[0].text)"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "王小明\n"), done.stderr


def test_ways_to_decode(spacy, lattice_folder):
    for way, found in (("path", FOUND), ("spans", FOUND), (1, [])):
        nlp = spacy.blank("zh")
        nlp.add_pipe("hanlattice", config={"model": str(lattice_folder), "decode": way})
        assert told(nlp(TEXT)) == found
    with pytest.raises(InputError, match="decode must be path, spans, or a threshold"):
        spacy.blank("zh").add_pipe(
            "hanlattice", config={"model": str(lattice_folder), "decode": "best"}
        )
