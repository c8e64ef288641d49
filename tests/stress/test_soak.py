"""A short `make soak`, and tests for the errors that it has found."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from hanlattice.ops import library
from hanlattice.predict import bundled, load
from hanlattice.text.lexicon import Lexicon
from tests.helpers.patience import PATIENCE
from tests.stress.soak import CHANGING, PLAIN, TEXTS, Soak
from tests.test_build import ROOT

HELD = """
import os, signal, threading, time
from hanlattice.text.lexicon import Lexicon

lexicon, inside = Lexicon(["南京", "长江"]), threading.Event()

def hold():
    with lexicon.temporary_words(["市长江"]):
        inside.set()
        time.sleep(0.5)

threading.Thread(target=hold).start()
inside.wait()
if os.fork() == 0:
    signal.alarm(30)
    os._exit([word for *_, word in lexicon.match("南京市长江大桥")] != ["南京", "长江"])
_, status = os.wait()
raise SystemExit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.skipif(sys.platform != "linux", reason="/proc says how much memory a process has")
@pytest.mark.skipif(bool(library.missing()), reason="numpy alone takes longer")
def test_some_seconds_of_threads_and_processes() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.stress.soak", "3"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    counts = json.loads(done.stdout)
    assert min(counts[name] for name in ("answers", "words changed", "borrowed", "forked")) > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_waits_for_a_thread_that_changes_a_lexicon() -> None:
    """Otherwise the child would wait forever for a thread that it does not have."""
    subprocess.run([sys.executable, "-c", HELD], check=True, timeout=PATIENCE)


def test_a_text_is_read_with_the_words_of_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word that is removed while a text is read counts for the whole text, or not at all."""
    tagger = load("seg")
    text = "云栖小镇的大会"
    without = tagger(text).spans
    tagger.lexicon.add("云栖小镇")
    whole = tagger(text).spans
    assert whole != without
    asks = Lexicon.is_user_word

    def remove_first(lexicon: Lexicon, words: object) -> object:
        lexicon.remove("云栖小镇")
        return asks(lexicon, words)  # type: ignore[arg-type]

    monkeypatch.setattr(Lexicon, "is_user_word", remove_first)
    assert tagger(text).spans == without


def test_the_soak_sees_an_answer_that_no_words_explain() -> None:
    soak = Soak({"seg": [[bundled("seg")(text).spans] for text in TEXTS]}, 0)
    soak.check("seg", 3, bundled("seg")(TEXTS[3]), "")
    assert not soak.wrong
    soak.check("seg", 3, bundled("seg")(TEXTS[4]), "")
    assert soak.wrong


def test_every_changing_word_is_in_a_text() -> None:
    assert len(PLAIN) == len(CHANGING)
    assert all(any(word in text for text in TEXTS) for word in PLAIN)
