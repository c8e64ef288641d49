"""Traditional characters: the table that folds them, and how well a model reads traditional text.

    python benchmarks/traditional.py table                        # writes
    src/hanlattice/text/traditional.txt
    python benchmarks/traditional.py ner corpora/ner/msra/test.bmes
    python benchmarks/traditional.py seg corpora/cws/pku/test.txt

The table is what OpenCC (pip install opencc) makes of each character alone, of the standards of
OpenCC, Taiwan and Hong Kong. A measurement converts the text of a labelled file by OpenCC's phrases
(s2t, s2tw, s2hk), which leaves offsets as they are, and scores the model on both.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

TABLE = Path(__file__).parents[1] / "src" / "hanlattice" / "text" / "traditional.txt"
BLOCKS = ((0x3400, 0x4DC0), (0x4E00, 0xA000), (0x20000, 0x323B0))
SIMPLE_TOO = (
    "么乾吒徵拚捱摺榘著薹袷醣麴"  # simplified text has these as well: 乾隆, 著名, 宫商角徵羽
)
HEAD = """\
# Traditional and variant characters, each before the simplified one that a model sees in its place.
# Made by `python benchmarks/traditional.py table` from the dictionaries of OpenCC, https://github.com/BYVoid/OpenCC,
# Copyright Carbo Kuo and others, Apache License 2.0, https://www.apache.org/licenses/LICENSE-2.0
"""


def make_table() -> dict[str, str]:
    """Character by character, until nothing changes; only one for one, and only to the Basic
    Multilingual Plane.
    """
    import opencc

    convert = [opencc.OpenCC(name).convert for name in ("t2s", "tw2s", "hk2s")]
    table: dict[str, str] = {}
    for character in (chr(code) for low, high in BLOCKS for code in range(low, high)):
        found = next(
            (each for to in convert if len(each := to(character)) == 1 and each != character),
            character,
        )
        if found != character and character not in SIMPLE_TOO and ord(found) < 0x10000:
            table[character] = found
    return {character: table.get(found, found) for character, found in table.items()}


def main() -> None:
    if sys.argv[1:] == ["table"]:
        pairs = [character + simple for character, simple in sorted(make_table().items())]
        rows = ["".join(pairs[at : at + 50]) for at in range(0, len(pairs), 50)]
        TABLE.write_text(HEAD + "\n".join(rows) + "\n", "utf-8")
        print(f"{TABLE.name}: {len(pairs):,} characters")
        return
    measure(sys.argv[1], sys.argv[2])


def measure(name: str, file: str) -> None:
    import opencc

    from hanlattice.checkpoint import find_model
    from hanlattice.checkpoint.load import load_model
    from hanlattice.evaluation.ner import score
    from hanlattice.inference.decode import decode
    from hanlattice.training.corpora import read_for

    model = load_model(find_model(name))
    corpus = read_for([model], file)
    gold = [sentence.spans or () for sentence in corpus.sentences]
    print(
        "| text | characters changed | sentences left out | P | R | F1 |\n|---|---|---|---|---|---|"
    )
    for standard in ("", "s2t", "s2tw", "s2hk"):
        convert = opencc.OpenCC(standard).convert if standard else str
        texts = [convert(sentence.text) for sentence in corpus.sentences]
        kept = [at for at, text in enumerate(texts) if len(text) == len(corpus.sentences[at])]
        sentences = [
            replace(corpus.sentences[at], text=texts[at], spans=None, words=None) for at in kept
        ]
        changed = sum(
            a != b for at in kept for a, b in zip(texts[at], corpus.sentences[at].text, strict=True)
        )
        found = decode(
            model.tagger,
            model.indexer,
            model.indexer.examples(sentences),
            threshold=model.threshold(None),
        )
        all_ = score([gold[at] for at in kept], found).overall
        share = changed / sum(len(texts[at]) for at in kept)
        figures = " | ".join(
            f"{100 * value:.2f}" for value in (all_.precision, all_.recall, all_.f1)
        )
        print(
            f"| {standard or 'as given'} | {100 * share:.1f} % | {len(texts) - len(kept)} | "
            f"{figures} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
