"""Language models of words: cut as `pretrain vectors --unit word` cuts, scored by word and by
character.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.checkpoint.language_model import (
    Cutter,
    LanguageModel,
    language_model_digest,
    load_language_model,
    make_vocab,
)
from hanlattice.errors import InputError, ModelError, OutputError
from hanlattice.lab.pretrain.lm.recipe import Recipe
from hanlattice.lab.pretrain.lm.score import (
    Sampling,
    sample,
    score,
    spaced,
    text_cutter,
    text_surprise,
)
from hanlattice.lab.pretrain.lm.text import BREAK_ID, read_words_of, text_lines, word_lines
from hanlattice.lab.pretrain.lm.train import train_language_model
from hanlattice.lab.pretrain.units import BestPath, JiebaWords
from hanlattice.text.normalize import fold
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.training.build import build
from tests.helpers.command import hanlattice
from tests.helpers.lm import (
    assert_same_run,
    events,
    facts,
    killed_at_step,
    random_model,
    text_of,
    tiny,
    weights,
)
from tests.helpers.made import made_config

WORDS = ("南京", "长江", "大桥", "市", "A")
LISTS = st.lists(
    st.lists(st.sampled_from([*WORDS, "未知的", "B"]), max_size=6), min_size=1, max_size=5
)


@pytest.fixture(scope="module")
def lexicon(lm_text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every pair of neighbouring characters that is frequent in the text is a word."""
    text = lm_text.read_text("utf-8")
    pairs = Counter(
        text[at : at + 2] for at in range(len(text) - 1) if "\n" not in text[at : at + 2]
    )
    path = tmp_path_factory.mktemp("lexicon") / "pairs.txt"
    path.write_text("".join(f"{pair}\t{count}\n" for pair, count in pairs.most_common(40)), "utf-8")
    return path


@pytest.fixture(scope="module")
def of_words(lm_text: Path, lexicon: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "words"
    train_language_model(tiny(unit="word", lexicon=lexicon, vocab=30), [lm_text], folder)
    return folder


def one_by_one(model: LanguageModel, direction: str, words: list[str]) -> list[float]:
    """Bits of each word in the order of reading, a word at a time."""
    module = model.directions[direction]
    state = None
    symbol = BREAK_ID
    bits = []
    for target in [*model.vocab.ids(words if direction == "forward" else words[::-1]), BREAK_ID]:
        hidden, state = module(torch.tensor([[symbol]]), state)
        probabilities = module.logits(hidden[0, 0]).double().exp()
        bits.append(-math.log2(probabilities[target] / probabilities.sum()))
        symbol = target
    return bits


@pytest.mark.parametrize("direction", ["forward", "backward"])
@given(texts=LISTS)
def test_bits_are_those_of_a_plain_loop_by_word_and_by_character(direction, texts):
    model = random_model(WORDS, cutter=Cutter(alphabet=99))
    each = [one_by_one(model, direction, words) for words in texts]
    for bits, expected in zip(text_surprise(model, direction, texts), each, strict=True):
        *inside, end = expected
        in_order = inside if direction == "forward" else inside[::-1]
        np.testing.assert_allclose(bits, [*in_order, end], rtol=1e-4, atol=1e-5)
    lines = text_lines(model, texts)
    found = score(
        model.directions[direction], lines if direction == "forward" else lines.mirrored()
    )
    total = sum(map(sum, each))
    characters = sum(len("".join(words)) + 1 for words in texts)
    assert (found.symbols, found.characters) == (sum(len(words) + 1 for words in texts), characters)
    assert found.unknown == sum(word not in WORDS for words in texts for word in words)
    assert found.bits == pytest.approx(total / found.symbols, rel=1e-4)
    unknown = [word for words in texts for word in words if word not in WORDS]
    total += sum(
        math.log2(100) for word in unknown for _ in f"{word}\n"
    )  # 99 characters, and the end of a word
    assert found.bits_a_character == pytest.approx(total / characters, rel=1e-4)
    assert found.perplexity_of_a_character == pytest.approx(2 ** (total / characters), rel=1e-3)


def test_text_is_read_as_words(tmp_path):
    texts = ["南京市 长江大桥", "我爱北京天安门ＡＢＣ", "他来到了网易杭研大厦"]
    (tmp_path / "text.txt").write_text("\n\n".join(texts), "utf-8")
    told: list[tuple[int, int]] = []
    lines, words = read_words_of(
        [tmp_path / "text.txt"], JiebaWords(), lambda done, size: told.append((done, size))
    )
    expected = list(JiebaWords()(texts))
    assert [[words[at] for at in text_of(lines, place)] for place in range(len(lines))] == expected
    assert [words[at] for at in lines.ids[lines.starts + lines.lengths]] == ["\n"] * 3
    known = word_lines(lines, words, make_vocab(["北京", "我"]), 7)
    assert known.sizes is not None
    assert known.sizes.tolist() == [len("".join(text.split())) for text in texts]
    assert known.spelling is not None
    spelt = [
        sum(3 * (len(word) + 1) for word in each if word not in ("北京", "我")) for each in expected
    ]
    assert known.spelling.tolist() == spelt  # log₂(7 + 1) = 3
    last = known.take(np.array([2]))
    assert (last.characters, last.unknown) == (len(texts[2]), len(expected[2]))
    assert last.mirrored().spelling == spelt[2]
    assert told[-1][0] == told[-1][1]


def test_the_vocabulary_is_the_most_frequent_words_of_what_is_trained_on(of_words, text, lexicon):
    cut = BestPath.load(lexicon)
    lists = [cut.words(fold(line)) for line in text.read_text("utf-8").splitlines()]
    held = lists[9::10]
    train = [words for at, words in enumerate(lists) if at % 10 != 9]
    counts = Counter(word for words in train for word in words)
    frequent = sorted(
        (word for word in counts if counts[word] >= 2), key=lambda word: (-counts[word], word)
    )
    model = load_language_model(of_words)
    assert len(frequent) > 30
    assert list(model.vocab.symbols) == ["<unk>", "\n", *frequent[:30]]
    known = facts(of_words)
    assert known["data"]["train"] == {
        "lines": 54,
        "words": sum(map(len, train)),
        "characters": sum(len("".join(words)) for words in train),
    }
    assert known["data"]["unknown"] == sum(
        word not in frequent[:30] for words in lists for word in words
    )
    assert known["recipe"]["vocab"] == 30
    for direction in ("forward", "backward"):
        found = score(
            model.directions[direction],
            text_lines(model, [w if direction == "forward" else w[::-1] for w in held]),
        )
        assert facts(of_words, direction)["held_out"] == found.as_dict()
        evaluated = events(of_words, "evaluate", direction)[-1]
        assert (
            evaluated["bits_a_character"] > evaluated["bits"] * found.symbols / found.characters
        )  # some are unknown
        assert (
            evaluated["words"]
            == sum(map(len, train)) * 2 + 108 - (sum(map(len, train)) + 54) % 4 * 2
        )
    card = (of_words / "README.md").read_text("utf-8")
    for part in (
        "A word language model",
        "by the dictionary lexicon.txt",
        "| bits a word |",
        "| unknown words |",
    ):
        assert part in card


def test_the_folder_cuts_text_as_it_was_cut(of_words, lexicon, tmp_path):
    """By its own copy of the lexicon, wherever that one is now."""
    model = load_language_model(of_words)
    assert model.cutter is not None
    assert model.cutter.path == str(of_words / "lexicon.txt")
    assert (of_words / "lexicon.txt").read_bytes() == lexicon.read_bytes()
    texts = ["王小明去了南湖", "ＡＢ 王"]
    assert list(text_cutter(model)(texts)) == [
        BestPath.load(lexicon).words(fold(text)) for text in texts
    ]
    record = json.loads((of_words / "lm.json").read_text("utf-8"))
    assert (record["unit"], record["cutter"]["path"]) == ("word", "lexicon.txt")


def test_a_folder_of_characters_is_as_it_was(trained):
    record = json.loads((trained / "lm.json").read_text("utf-8"))
    assert list(record) == ["format", "settings", "files", "sha256"]
    assert list(record["files"]) == ["chars.txt"]
    assert load_language_model(trained).cutter is None
    assert set(facts(trained)["held_out"]) == {"symbols", "bits", "perplexity"}
    assert Recipe(unit="char").decisive() == Recipe().decisive()


def test_another_words_model_can_be_the_beginning(of_words, text, tmp_path):
    found = train_language_model(
        tiny(start_from=of_words, epochs=1), [text], tmp_path / "lm", "forward"
    )["forward"]
    assert found["from"]["held_out"]["unknown"] == facts(of_words)["held_out"]["unknown"]
    for name in ("words.txt", "lexicon.txt", "lm.json"):
        assert (tmp_path / "lm" / name).read_bytes() == (of_words / name).read_bytes()


def test_a_stopped_run_goes_on_with_the_same_lexicon_only(text, lexicon, tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_bytes(lexicon.read_bytes())
    plain = tiny(unit="word", lexicon=mine)
    train_language_model(plain, [text], tmp_path / "whole", "forward")
    assert killed_at_step(
        tiny(unit="word", lexicon=mine, checkpoint_minutes=0), text, tmp_path / "stopped", 5
    )
    mine.write_text(mine.read_text("utf-8") + "龘龘\t1\n", "utf-8")
    with pytest.raises(ModelError, match="another configuration or other data"):
        train_language_model(plain, [text], tmp_path / "stopped", "forward", resume=True)
    with pytest.raises(OutputError, match="with other symbols or sizes"):
        train_language_model(tiny(), [text], tmp_path / "stopped", "backward")
    mine.write_bytes(lexicon.read_bytes())
    train_language_model(plain, [text], tmp_path / "stopped", "forward", resume=True)
    assert_same_run(tmp_path / "stopped", tmp_path / "whole")


def test_words_of_a_segmentation_model(text, tmp_path):
    found = train_language_model(
        tiny(unit="word", model="seg", epochs=1), [text], tmp_path / "lm", "forward"
    )
    assert found["forward"]["recipe"]["model"] == "seg"
    model = load_language_model(tmp_path / "lm", directions=["forward"])
    assert model.cutter is not None
    assert "".join(text_cutter(model)(["南京市长江大桥"])[0]) == "南京市长江大桥"
    changed = LanguageModel(
        model.vocab, model.settings, model.directions, cutter=Cutter("model", "0" * 64, "seg")
    )
    with pytest.raises(ModelError, match="were cut by another version of this segmentation model"):
        text_cutter(changed)
    gone = LanguageModel(
        model.vocab, model.settings, model.directions, cutter=Cutter("model", "0" * 64, "gone")
    )
    with pytest.raises(ModelError, match="gone: there is no such model folder"):
        text_cutter(gone)


def test_vectors_of_words_are_the_first_embeddings(text, lexicon, of_words, tmp_path):
    words = load_language_model(of_words).vocab.symbols[2:12]
    rows = np.random.default_rng(1).normal(size=(len(words), 6)).astype(np.float32)
    lines = [
        f"{word} {' '.join(map(repr, row.tolist()))}\n"
        for word, row in zip(words, rows, strict=True)
    ]
    (tmp_path / "v.vec").write_text("".join(lines), "utf-8")
    recipe = tiny(
        unit="word",
        lexicon=lexicon,
        vocab=30,
        vectors=tmp_path / "v.vec",
        lr=1e-12,
        weight_decay=0.0,
        epochs=1,
    )
    train_language_model(recipe, [text], tmp_path / "lm", "forward")
    table = weights(tmp_path / "lm")["embedding"].float().numpy()
    scale = 6**0.5 / np.linalg.norm(rows, axis=1).mean()
    np.testing.assert_allclose(table[2:12], rows * scale, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        ({"unit": "syllable"}, "--unit must be char or word, not 'syllable'"),
        ({"vocab": 5}, "--vocab is for --unit word: it has no effect on characters"),
        ({"unit": "char", "lexicon": Path("w.txt")}, "--lexicon is for --unit word"),
        ({"model": "seg"}, "--model is for --unit word"),
        ({"unit": "word", "vocab": 0}, "--vocab must be 1 or more"),
        (
            {"unit": "word", "lexicon": Path("w.txt"), "model": "seg"},
            "--lexicon and --model both say how words are cut",
        ),
        (
            {"start_from": Path("lm"), "unit": "word"},
            "--unit does not fit --from, whose model has its own unit",
        ),
        ({"start_from": Path("lm"), "vocab": 5}, "--vocab does not fit --from"),
        ({"start_from": Path("lm"), "model": "seg"}, "--model does not fit --from"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong, found):
    with pytest.raises(InputError, match=found):
        Recipe(**wrong)


def test_words_that_cannot_be_cut_or_counted_are_refused(text, lexicon, char_folder, tmp_path):
    out = tmp_path / "lm"
    with pytest.raises(InputError, match=r"no\.txt: cannot read"):
        train_language_model(tiny(unit="word", lexicon=tmp_path / "no.txt"), [text], out)
    with pytest.raises(
        InputError, match="expected a segmentation model, whose words cover the text"
    ):
        train_language_model(tiny(unit="word", model=str(char_folder)), [text], out)
    with pytest.raises(
        InputError, match="no word occurs 9999 times in the text; lower --min-count"
    ):
        train_language_model(tiny(unit="word", lexicon=lexicon, min_count=9999), [text], out)
    with pytest.raises(InputError, match=r"there are [\d,]+ words to train on"):
        train_language_model(tiny(unit="word", lexicon=lexicon, batch_size=999), [text], out)
    assert not out.exists()


def test_a_tagger_refuses_it_and_says_what_it_needs(of_words, made):
    config = made_config(made, model__encoder="char", lm__model=str(of_words))
    with pytest.raises(
        InputError,
        match=r"lm\.model: this is a language model of words; a tagger takes one of characters",
    ):
        build(config, [Sentence("王小明", (Span(0, 3, "PER"),))])
    assert (
        len(language_model_digest(of_words)) == 64
    )  # which `compare` needs before a tagger is made


def test_samples_are_words(of_words):
    model = load_language_model(of_words)
    prompt = "王小明"
    for direction in ("forward", "backward"):
        for text in sample(model, prompt, Sampling(5), 3, direction):
            rest = (
                text.removeprefix(prompt) if direction == "forward" else text.removesuffix(prompt)
            )
            assert len(rest) + len(prompt) == len(text)
            assert rest.replace(" ", "") in _texts(model.vocab.symbols[2:], rest.replace(" ", ""))


def _texts(words: tuple[str, ...], text: str) -> set[str]:
    """The text, if it is made of these words."""
    ends = {0}
    for end in range(1, len(text) + 1):
        if any(text[:end].endswith(word) and end - len(word) in ends for word in words):
            ends.add(end)
    return {text} if len(text) in ends else set()


def test_western_words_are_written_with_blanks():
    assert (
        spaced(["在", "Visual", "Studio", "里", "用", "C", "++", "0", "1"])
        == "在Visual Studio里用C++0 1"
    )
    assert spaced(["", "a", "b"]) == "a b"


def test_score_shows_each_word_and_both_means(of_words, lm_text):
    text = "王小明去了南湖"
    done = hanlattice("lm", "score", "-m", of_words, text, "--direction", "forward")
    assert done.code == 0, done.err
    model = load_language_model(of_words)
    (words,) = text_cutter(model)([text])
    (bits,) = text_surprise(model, "forward", [words])
    rows = [line.split("│")[1:3] for line in done.text.splitlines() if line.startswith("│")]
    shown = [(name.strip(), number.strip()) for name, number in rows]
    assert shown == [
        (name, f"{value:.2f}") for name, value in zip([*words, "end"], bits, strict=True)
    ]
    assert f"forward: {bits.mean():.4f} bits a word" in done.text
    assert model.cutter is not None
    assert model.cutter.alphabet == len(set(lm_text.read_text("utf-8")) - {"\n"})
    spelt = sum(len(word) + 1 for word in words if word not in model.vocab) * math.log2(
        model.cutter.alphabet + 1
    )
    mean = (bits.sum() + spelt) / 8
    assert (
        f"; {mean:.4f} bits a character, perplexity {2**mean:.3f}, over 8 characters and line ends"
        in done.text
    )
    line, total = map(
        json.loads, hanlattice("lm", "score", "-m", of_words, text, "--json").text.splitlines()
    )
    assert line["words"] == words
    assert total["total"]["forward"]["characters"] == 8
    assert total["total"]["forward"]["unknown"] == sum(word not in model.vocab for word in words)
