"""How often the encoding of a piece of text is found: our rule, and charset-normalizer.

    python benchmarks/file_encodings.py corpora/raw/{news,reviews,web,tech}.txt.xz

Pieces of lines, drawn at random with a seed, are encoded: as they are in GB18030, and converted by
OpenCC (s2tw) in GB18030 and Big5. Pieces that an encoding cannot carry, or without Chinese, are
left out. pip install opencc charset-normalizer
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator

import charset_normalizer
import opencc

from hanlattice.data.formats.raw import RawText
from hanlattice.encodings import guess

FAMILY = {
    "gb18030": "GB",
    "gbk": "GB",
    "gb2312": "GB",
    "cp950": "Big5",
    "big5": "Big5",
    "big5hkscs": "Big5",
}


def theirs(body: bytes) -> str:
    best = charset_normalizer.from_bytes(body).best()
    return best.encoding if best else ""


def encoded(pieces: list[str], codec: str) -> Iterator[bytes]:
    for piece in pieces:
        try:
            body = piece.encode(codec)
        except UnicodeEncodeError:
            continue
        if sum(byte > 127 for byte in body) >= 4:
            yield body


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--count", type=int, default=1000, help="pieces of each file")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    draw = random.Random(given.seed)
    lines = list[str]()
    for file in given.files:
        lines += draw.sample(
            [line.strip() for line, _ in zip(RawText([file]), range(40_000), strict=False)],
            given.count,
        )
    convert = opencc.OpenCC("s2tw").convert
    rules: dict[str, Callable[[bytes], str]] = {"ours": guess, "charset-normalizer": theirs}
    print("| characters | text, encoding | pieces | " + " | ".join(rules) + " |")
    print("|---|---|---|" + "---|" * len(rules))
    for length in (4, 8, 16, 32, 0):
        simple = [line[: length or None] for line in lines]
        for name, pieces, codec in (
            ("simplified, GB18030", simple, "gb18030"),
            ("traditional, Big5", [convert(piece) for piece in simple], "cp950"),
            ("traditional, GB18030", [convert(piece) for piece in simple], "gb18030"),
        ):
            bodies = list(encoded(pieces, codec))
            right = [
                sum(FAMILY.get(rule(body)) == FAMILY[codec] for body in bodies)
                for rule in rules.values()
            ]
            shares = " | ".join(f"{100 * count / len(bodies):.1f} %" for count in right)
            print(f"| {length or 'whole line'} | {name} | {len(bodies):,} | {shares} |")


if __name__ == "__main__":
    main()
