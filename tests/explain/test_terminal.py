"""An explanation as lines: nothing of it is lost, and no line is wider than the terminal, whatever
its width.
"""

from __future__ import annotations

import os
import pty
import re
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from hanlattice.explain import Explanation
from hanlattice.explain.drawing import shown, span_label
from hanlattice.explain.terminal import NARROWEST, lines, wrapped
from hanlattice.text.display import visible
from hanlattice.text.span import WORD, Span
from hanlattice.theme import INKS
from tests.helpers import models
from tests.helpers.command import ENVIRONMENT, hanlattice, run
from tests.helpers.explanations import any_explanation, explained, nanjing
from tests.helpers.strategies import any_character

LONG = "昨天王小明和李芳到南京市长江大桥开会。"
some_texts = st.text(st.sampled_from("南京市长江大桥") | any_character, min_size=1, max_size=60)


def plain(explanation: Explanation, width: int) -> list[str]:
    return ["".join(piece.text for piece in line).rstrip() for line in lines(explanation, 1, width)]


def solid(text: str) -> str:
    return "".join(text.split())


def assert_whole(explanation: Explanation, found: list[str]) -> None:
    """All characters stand in their order, and every label, share and note somewhere."""
    heads = [line for nth, line in enumerate(found) if nth == 0 or not found[nth - 1]]
    assert solid("".join(heads)) == solid("".join(map(shown, explanation.text)))
    everything = solid("".join(found))
    for span in explanation.spans:
        assert span.label == WORD or solid(visible(span_label(span))) in everything
    if any(span.label == WORD for span in explanation.spans):
        assert solid("a word's probability in %, at most 99") in everything
    assert everything.count("±10") >= 2 * len(explanation.words)
    for direction in ("forward", "backward"):
        assert solid(f"a character's own share in %, {direction}") in everything


@settings(max_examples=60)
@given(explanation=any_explanation(some_texts), width=st.integers(NARROWEST, 140))
def test_no_line_is_wider_than_the_terminal(explanation: Explanation, width: int) -> None:
    found = list(lines(explanation, 1, width))
    for line in found:
        text = "".join(piece.text for piece in line)
        assert text.isprintable() or "\u3000" in text
        assert cell_len(text) <= width
    assert_whole(explanation, plain(explanation, width))


def test_the_narrowest() -> None:
    assert NARROWEST == 40
    assert plain(nanjing(), 1) == plain(nanjing(), 40)
    wide = replace(explained("天气", []), has_lattice=False, layers=())
    assert plain(wide, 40)[-2:] == ["this model has no lexicon: it reads", "characters alone"]


@given(st.text(st.sampled_from("ab 南京\u0301"), max_size=80), st.integers(2, 20))
def test_text_is_wrapped(text: str, most: int) -> None:
    found = list(wrapped(text, most))
    assert all(cell_len(line) <= most for line in found)
    assert solid("".join(found)) == solid(text)


def test_lines_say_everything_without_colour() -> None:
    assert plain(nanjing(), 100) == [
        "南 京 市 长 江 大 桥",
        "└─LOC──┘ └LOC 100%─┘   南京市 LOC 98%",
        "                                 forward →           ← backward",
        "├───┤                  南京      ████      50% ±10   ████      50% ±10",
        "├──────┤               南京市    ████      50% ±10   ▍          5% ±10",
        "      ├───┤            市长      ████      50% ±10   ████      50% ±10",
        "         ├───┤         长江      ████      50% ±10   ████      50% ±10",
        "         ├─────────┤   长江大桥  ████      50% ±10   ▍          5% ±10",
        "               ├───┤   大桥      ▍          5% ±10   ████      50% ±10",
        "75 50 50 50 50 75 45   a character's own share in %, forward",
        "45 75 50 45 75 50 75   a character's own share in %, backward",
    ]


def test_a_skin_tone_by_itself_is_two_columns_wide() -> None:
    assert plain(explained("👍🏽天", []), 100)[0] == "👍 🏽 天"


def test_the_probabilities_of_words_have_a_line_of_their_own() -> None:
    """There is no room for them in the brackets of short words."""
    spans = (
        Span(0, 1, "WORD", 0.07, "南"),
        Span(1, 2, "WORD", 1.0, "京"),
        Span(2, 5, "WORD", 0.666, "市长江"),
    )
    assert plain(explained("南京市长江", [], spans), 100)[:3] == [
        "南 京 市 长 江",
        "└┘ └┘ └──────┘",
        "7  99 67         a word's probability in %, at most 99",
    ]


def test_shares_stand_below_words_where_it_is_narrow() -> None:
    assert plain(nanjing(), 40) == [
        "南 京 市 长 江 大 桥",
        "└─LOC──┘ └LOC 100%─┘   南京市 LOC 98%",
        "  forward →           ← backward",
        "├───┤                  南京",
        "  ████      50% ±10   ████      50% ±10",
        "├──────┤               南京市",
        "  ████      50% ±10   ▍          5% ±10",
        "      ├───┤            市长",
        "  ████      50% ±10   ████      50% ±10",
        "         ├───┤         长江",
        "  ████      50% ±10   ████      50% ±10",
        "         ├─────────┤   长江大桥",
        "  ████      50% ±10   ▍          5% ±10",
        "               ├───┤   大桥",
        "  ▍          5% ±10   ████      50% ±10",
        "75 50 50 50 50 75 45",
        "a character's own share in %, forward",
        "45 75 50 45 75 50 75",
        "a character's own share in %, backward",
    ]
    most = max(map(cell_len, plain(nanjing(), 200)))
    assert plain(nanjing(), most + 1) == plain(nanjing(), 200)
    assert max(map(cell_len, plain(nanjing(), most - 1))) < most


def test_the_program_fits_its_terminal(made, tmp_path) -> None:
    """The real program at a pseudo-terminal, and in a pipe: COLUMNS says how wide either is."""
    models.tagger(made, tmp_path)
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "NO_COLOR"}
    environment |= {"COLUMNS": "40", "TERM": "xterm-256color"}
    master, slave = pty.openpty()
    outcome = run("explain", "-m", tmp_path, LONG, stdout=slave, env=environment)
    os.close(slave)
    seen = os.read(master, 60_000).decode("utf-8")
    os.close(master)
    assert (outcome.code, outcome.err) == (0, "")
    assert f"\x1b[38;5;{INKS['word'].terminal}m" in seen
    piped = {
        width: hanlattice("explain", "-m", tmp_path, LONG, columns=width).text for width in (40, 63)
    }
    assert re.sub("\x1b\\[[0-9;]*m", "", seen).replace("\r\n", "\n") == piped[40]
    for width, text in piped.items():
        assert "without it" in text
        assert all(cell_len(line) <= width for line in text.splitlines())
