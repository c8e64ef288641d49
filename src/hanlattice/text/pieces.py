"""Pieces: text as the tokens of a transformer that has BERT's vocabulary.

Ideographs and marks are tokens by themselves; other words, such as Latin ones and numbers, are cut
into the longest pieces that the vocabulary has, as BERT does. Each character belongs to exactly one
piece, so no offset moves.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np

from hanlattice.errors import InputError
from hanlattice.files import atomic_write, opening, read_text
from hanlattice.text.lattice import Ints
from hanlattice.text.normalize import Codes, CodeTable, fold

VOCAB = "vocab.txt"
TOKENIZER = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
CLS = "[CLS]"
SEP = "[SEP]"
UNK = "[UNK]"
PAD = "[PAD]"
_GOES_ON = "##"
_IDEOGRAPHS = (
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2CEAF), (0x2F800, 0x2FA1F),
)  # fmt: skip
# words whose pieces are remembered, and their length at most
_MOST = 1 << 16
_LONG = 100


class Pieces:
    """The vocabulary of a transformer. `pieces(codes, lengths)` are the tokens of texts, a number a
    character.
    """

    def __init__(self, tokens: Sequence[str], lower: bool = True) -> None:
        self.tokens = tuple(tokens)
        self.lower = lower
        self._ids = {token: at for at, token in enumerate(self.tokens)}
        if missing := [token for token in (CLS, SEP, UNK, PAD) if token not in self._ids]:
            raise InputError(f"not the vocabulary of a BERT: {', '.join(missing)} is missing in it")
        self.cls, self.sep, self.unk, self.pad = (
            self._ids[token] for token in (CLS, SEP, UNK, PAD)
        )
        self._longest = max(map(len, self.tokens))
        self._alone = CodeTable(self._alone_id)
        self._words: dict[str, Ints] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def __call__(self, codes: Codes, lengths: Ints, offsets: Ints | None = None) -> Ints:
        """[N]: at the first character of each piece its id + 1, at its others 0.

        The texts, of these lengths, come one after the other. With `offsets`, white space was
        removed from them, which ends a word.
        """
        found = self._alone(codes).astype(np.int64)
        in_word = found == 0
        begins = in_word.copy()
        begins[1:] &= ~in_word[:-1]
        first = (np.cumsum(lengths) - lengths)[lengths > 0]
        begins[first] = in_word[first]
        if offsets is not None:
            begins[1:] |= in_word[1:] & (np.diff(offsets) != 1)
        starts = np.flatnonzero(begins)
        word = np.cumsum(begins)[in_word]  # of each character in a word, its number from 1
        ends = starts + np.bincount(word, minlength=len(starts) + 1)[1:]
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            found[start:end] = self._word(
                codes[start:end].tobytes().decode("utf-32-le", "surrogatepass")
            )
        return found

    def _alone_id(self, character: str) -> int:
        """1 + the id of a character that is a token by itself; 0 for one that may be part of a
        longer word.
        """
        if _in_word(character):
            return 0
        for form in (character, fold(character)):
            if form in self._ids:
                return self._ids[form] + 1
        return self.unk + 1

    def _word(self, word: str) -> Ints:
        """The numbers of a word's characters: the longest piece first, from left to right."""
        if word in self._words:
            return self._words[word]
        seen = [self._seen(character) for character in word]
        found = np.zeros(len(word), dtype=np.int64)
        at = 0
        prefix = ""
        while at < len(word):
            for end in range(min(len(word), at + self._longest), at, -1):
                if (letters := "".join(seen[at:end])) and prefix + letters in self._ids:
                    found[at] = self._ids[prefix + letters] + 1
                    break
            else:
                end, found[at] = at + 1, self.unk + 1
            prefix = _GOES_ON if prefix or any(seen[at:end]) else ""
            at = end
        if len(self._words) < _MOST and len(word) <= _LONG:
            self._words[word] = found
        return found

    def _seen(self, character: str) -> str:
        """As the vocabulary spells it: widths folded; where it has small letters only, those, and
        no accents.
        """
        plain = fold(character)
        if not self.lower:
            return plain
        letters = "".join(
            each for each in unicodedata.normalize("NFD", plain.lower()) if not _is_mark(each)
        )
        return letters if len(letters) < 2 else plain.lower()

    def save(self, folder: Path) -> None:
        """Write it in Hugging Face's layout: `vocab.txt` and what says whether letters are small."""
        with atomic_write(folder / VOCAB) as file:
            file.writelines(f"{token}\n" for token in self.tokens)
        with atomic_write(folder / SETTINGS) as file:
            json.dump(
                {"tokenizer_class": "BertTokenizer", "do_lower_case": self.lower}, file, indent=2
            )
            file.write("\n")

    @classmethod
    def load(cls, folder: Path) -> Pieces:
        """Of a folder in Hugging Face's layout: `vocab.txt`, or else a `tokenizer.json` of word
        pieces.
        """
        settings = _read_json(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}
        lower = settings.get("do_lower_case", True)
        if (folder / VOCAB).is_file():
            path = folder / VOCAB
            tokens = read_text(folder / VOCAB).removesuffix("\n").split("\n")
        elif (folder / TOKENIZER).is_file():
            path = folder / TOKENIZER
            tokenizer = _read_json(path)
            tokens = _tokens(tokenizer, path)
            lower = settings.get(
                "do_lower_case", (tokenizer.get("normalizer") or {}).get("lowercase", True)
            )
        else:
            raise InputError(
                f"it has no {VOCAB}, and no {TOKENIZER}: expected the vocabulary of a BERT", folder
            )
        is_small = not any(
            token[:1] in ascii_uppercase for token in tokens if token
        )  # whatever the settings say
        try:
            return cls(tokens, bool(lower) or is_small)
        except InputError as error:
            raise InputError(str(error), path) from None


def _tokens(tokenizer: Mapping[str, Any], path: Path) -> list[str]:
    """The tokens of a `tokenizer.json`, in the order of their ids."""
    model = tokenizer.get("model")
    vocab = (
        model.get("vocab")
        if isinstance(model, Mapping) and model.get("type") == "WordPiece"
        else None
    )
    if not isinstance(vocab, Mapping) or not all(
        isinstance(at, int) and at >= 0 for at in vocab.values()
    ):
        raise InputError(
            "not a vocabulary of word pieces, as BERT, ELECTRA and ERNIE have it", path
        )
    tokens = [f"[unused id {at}]" for at in range(1 + max(vocab.values(), default=0))]
    for token, at in vocab.items():
        tokens[at] = token
    return tokens


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        with opening(path) as file:
            found = json.load(file)
    except (ValueError, RecursionError) as error:
        raise InputError(f"cannot be read as JSON: {error}", path) from None
    if not isinstance(found, Mapping):
        raise InputError("expected a JSON object", path)
    return found


def _in_word(character: str) -> bool:
    """Whether BERT reads it together with its neighbours: letters, digits and their marks, but no
    ideographs.
    """
    code = ord(character)
    kind = unicodedata.category(character)
    is_mark = kind[0] in "PCZ" or (code < 128 and not character.isalnum())
    return not (is_mark or any(low <= code <= high for low, high in _IDEOGRAPHS))


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) == "Mn"
