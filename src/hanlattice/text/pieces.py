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
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)
# How many words' pieces are remembered, and the characters of such a word at most.
_MOST = 1 << 16
_LONG = 100


class Pieces:
    """The vocabulary of a transformer; `pieces(codes, lengths)` are the tokens of texts."""

    def __init__(self, tokens: Sequence[str], lower: bool = True) -> None:
        self.tokens = tuple(tokens)
        self.lower = lower
        self._ids = {token: id for id, token in enumerate(self.tokens)}
        if missing := [token for token in (CLS, SEP, UNK, PAD) if token not in self._ids]:
            raise InputError(f"not the vocabulary of a BERT: {', '.join(missing)} is missing in it")
        self.cls = self._ids[CLS]
        self.sep = self._ids[SEP]
        self.unk = self._ids[UNK]
        self.pad = self._ids[PAD]
        self._longest = max(map(len, self.tokens))
        self._alone = CodeTable(self._alone_id)
        self._words: dict[str, Ints] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def __call__(self, codes: Codes, lengths: Ints, offsets: Ints | None = None) -> Ints:
        """Return [N]: at the first character of each piece its id + 1, at its others 0.

        Args:
            codes: Texts without white space, one after the other.
            lengths: [texts]: the length of each.
            offsets: [N]: the place of each character in its text as given, if white space was
                removed; it ends a word.
        """
        ids = self._alone(codes).astype(np.int64)
        in_word = ids == 0
        begins = in_word.copy()
        begins[1:] &= ~in_word[:-1]
        first = (np.cumsum(lengths) - lengths)[lengths > 0]
        begins[first] = in_word[first]
        if offsets is not None:
            begins[1:] |= in_word[1:] & (np.diff(offsets) != 1)
        starts = np.flatnonzero(begins)
        # The number of its word, from 1, for each character that is in a word.
        word = np.cumsum(begins)[in_word]
        ends = starts + np.bincount(word, minlength=len(starts) + 1)[1:]
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            text = codes[start:end].tobytes().decode("utf-32-le", "surrogatepass")
            ids[start:end] = self._word(text)
        return ids

    def _alone_id(self, character: str) -> int:
        """Return 1 + the id of a character that is a token by itself; 0 for one inside words.

        BERT reads letters, digits and their marks together with their neighbours, but ideographs,
        punctuation and symbols of ASCII alone.
        """
        code = ord(character)
        is_mark = unicodedata.category(character)[0] in "PCZ"
        is_mark = is_mark or (code < 128 and not character.isalnum())
        if not is_mark and not any(low <= code <= high for low, high in _IDEOGRAPHS):
            return 0
        for form in (character, fold(character)):
            if form in self._ids:
                return self._ids[form] + 1
        return self.unk + 1

    def _word(self, word: str) -> Ints:
        """Return the numbers of a word's characters: the longest piece first, left to right."""
        if word in self._words:
            return self._words[word]
        seen = [self._seen(character) for character in word]
        ids = np.zeros(len(word), dtype=np.int64)
        start = 0
        prefix = ""
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                if (letters := "".join(seen[start:end])) and prefix + letters in self._ids:
                    ids[start] = self._ids[prefix + letters] + 1
                    break
            else:
                end = start + 1
                ids[start] = self.unk + 1
            # Characters that the vocabulary does not spell, such as accents, begin no word.
            prefix = _GOES_ON if prefix or any(seen[start:end]) else ""
            start = end
        if len(self._words) < _MOST and len(word) <= _LONG:
            self._words[word] = ids
        return ids

    def _seen(self, character: str) -> str:
        """Spell a character like the vocabulary: folded, and perhaps small and without accents."""
        plain = fold(character)
        if not self.lower:
            return plain
        parts = unicodedata.normalize("NFD", plain.lower())
        letters = "".join(part for part in parts if unicodedata.category(part) != "Mn")
        return letters if len(letters) < 2 else plain.lower()

    def save(self, folder: Path) -> None:
        """Write `vocab.txt`, and the settings, in Hugging Face's layout."""
        with atomic_write(folder / VOCAB) as file:
            file.writelines(f"{token}\n" for token in self.tokens)
        settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": self.lower}
        with atomic_write(folder / SETTINGS) as file:
            json.dump(settings, file, indent=2)
            file.write("\n")

    @classmethod
    def load(cls, folder: Path) -> Pieces:
        """Read a folder in Hugging Face's layout: its `vocab.txt`, or else its `tokenizer.json`."""
        settings = _read_json(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}
        lower = settings.get("do_lower_case", True)
        if (folder / VOCAB).is_file():
            path = folder / VOCAB
            tokens = read_text(folder / VOCAB).removesuffix("\n").split("\n")
        elif (folder / TOKENIZER).is_file():
            path = folder / TOKENIZER
            tokenizer = _read_json(path)
            tokens = _tokens(tokenizer, path)
            normalizer = tokenizer.get("normalizer") or {}
            lower = settings.get("do_lower_case", normalizer.get("lowercase", True))
        else:
            problem = f"it has no {VOCAB}, and no {TOKENIZER}: expected the vocabulary of a BERT"
            raise InputError(problem, folder)
        # Without any capital letter the vocabulary is a small one, whatever the settings say.
        is_small = not any(token[:1] in ascii_uppercase for token in tokens if token)
        try:
            return cls(tokens, bool(lower) or is_small)
        except InputError as error:
            raise InputError(str(error), path) from None


def _tokens(tokenizer: Mapping[str, Any], path: Path) -> list[str]:
    """Return the tokens of a `tokenizer.json`, in the order of their ids."""
    model = tokenizer.get("model")
    vocab = None
    if isinstance(model, Mapping) and model.get("type") == "WordPiece":
        vocab = model.get("vocab")
    if not isinstance(vocab, Mapping) or not all(
        isinstance(id, int) and id >= 0 for id in vocab.values()
    ):
        problem = "not a vocabulary of word pieces, as BERT, ELECTRA and ERNIE have it"
        raise InputError(problem, path)
    # Ids may have gaps, which must not move the tokens behind them.
    tokens = [f"[unused id {id}]" for id in range(1 + max(vocab.values(), default=0))]
    for token, id in vocab.items():
        tokens[id] = token
    return tokens


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        with opening(path) as file:
            content = json.load(file)
    except (ValueError, RecursionError) as error:
        raise InputError(f"cannot be read as JSON: {error}", path) from None
    if not isinstance(content, Mapping):
        raise InputError("expected a JSON object", path)
    return content
