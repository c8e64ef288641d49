"""Words for the length of a `with` block: who is in the block sees them, and nobody else, and
nobody waits.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.checkpoint.load import load_model
from hanlattice.document import Document
from hanlattice.predict import Predictor, load
from hanlattice.text.dictionary import Entry
from hanlattice.text.lexicon import Lexicon

TEXT = "他在云栖小镇"
GUARD = 60  # seconds after which something hangs


@pytest.fixture(params=[False, True], ids=["arrays", "torch"])
def tagger(request: pytest.FixtureRequest, lattice_folder: Path) -> Predictor:
    return Predictor(load_model(lattice_folder, modules=request.param))


def words(lexicon: Lexicon, text: str = TEXT) -> list[str]:
    return [word for *_, word in lexicon.match(text)]


def scored(document: Document) -> list[tuple[object, float | None]]:
    return [(span, span.score) for span in document.spans]


def within_guard(work: object) -> object:
    """What a coroutine returns; an error if it hangs. The thread that hangs is left to itself."""
    done: list[object] = []
    thread = threading.Thread(target=lambda: done.append(asyncio.run(work())), daemon=True)
    thread.start()
    thread.join(GUARD)
    assert done, "it hangs"
    return done[0]


def test_a_thread_that_asyncio_starts_in_a_block_sees_its_words(tagger: Predictor) -> None:
    text = "王小明在青石镇工作。"
    own = copy.deepcopy(tagger)
    own.lexicon.add("青石镇工")
    own.lexicon.remove("青石镇")
    before = tagger(text)

    async def work() -> Document:
        with tagger.lexicon.temporary_words(["青石镇工"], ["青石镇"]):
            return await asyncio.to_thread(tagger, text)

    found = within_guard(work)
    assert isinstance(found, Document)
    assert scored(found) == scored(own(text)) != scored(before)
    assert scored(tagger(text)) == scored(before)


def test_tasks_that_take_turns_see_each_its_own_words() -> None:
    lexicon = Lexicon(["小镇"])
    seen: dict[str, list[list[str]]] = {}

    async def one(name: str, word: str, turn: asyncio.Barrier) -> None:
        rows = seen.setdefault(name, [])
        await turn.wait()
        with lexicon.temporary_words([word]):
            for _ in range(3):
                rows.append(words(lexicon))
                await turn.wait()
        rows.append(words(lexicon))
        await turn.wait()

    async def both() -> list[str]:
        turn = asyncio.Barrier(2)
        await asyncio.gather(one("a", "云栖", turn), one("b", "他在", turn))
        return words(lexicon)

    assert within_guard(both) == ["小镇"]
    assert seen == {
        "a": [["云栖", "小镇"]] * 3 + [["小镇"]],
        "b": [["他在", "小镇"]] * 3 + [["小镇"]],
    }


def test_other_threads_neither_wait_nor_see_anything(tagger: Predictor) -> None:
    lexicon = tagger.lexicon
    before = scored(tagger(TEXT))
    with ThreadPoolExecutor(1) as pool:
        with lexicon.temporary_words(["他在云栖"]):
            assert pool.submit(words, lexicon).result(GUARD) == []
            assert scored(pool.submit(tagger, TEXT).result(GUARD)) == before
            assert pool.submit(lexicon.add, "小镇").result(GUARD)
            assert words(lexicon) == ["他在云栖"]  # as it was when the block began
        assert pool.submit(words, lexicon).result(GUARD) == words(lexicon) == ["小镇"]


def test_threads_that_borrow_at_once_find_what_each_finds_alone(tagger: Predictor) -> None:
    """Each word has its own vector, though all of them would be the next word of the model."""
    own = ["青石镇工", "小明在", "在青石", "镇工作"]
    text = "王小明在青石镇工作。"

    def alone(word: str) -> Document:
        other = copy.deepcopy(tagger)
        other.lexicon.add(word)
        return other(text)

    wanted = [scored(alone(word)) for word in own]
    together = threading.Barrier(len(own))

    def work(word: str) -> list[list[tuple[object, float | None]]]:
        together.wait(GUARD)
        rows = []
        for _ in range(5):
            with tagger.lexicon.temporary_words([word]):
                rows.append(scored(tagger(text)))
        return rows

    with ThreadPoolExecutor(len(own)) as pool:
        for rows, want in zip(pool.map(work, own), wanted, strict=True):
            assert rows == [want] * 5


def test_what_a_block_changes_ends_with_it(tagger: Predictor) -> None:
    lexicon = tagger.lexicon
    lexicon.add("青石镇工", label="LOC")
    with lexicon.temporary_words(["云栖"]):
        lexicon.add("小镇")
        lexicon.add("他在", label="ORG")
        lexicon.remove("青石镇工")
        assert words(lexicon) == ["他在", "云栖", "小镇"]
        assert list(lexicon.rules.entries()) == [Entry("他在", "ORG")]
    assert words(lexicon) == []
    assert list(lexicon.rules.entries()) == [Entry("青石镇工", "LOC")]


def test_blocks_inside_blocks_and_errors() -> None:
    lexicon = Lexicon(["小镇"])

    def inner() -> None:
        with lexicon.temporary_words(["他在"], ["小镇", "云栖"]):
            assert words(lexicon) == ["他在"]
            raise ZeroDivisionError

    def outer() -> None:
        with lexicon.temporary_words(["云栖"]):
            with pytest.raises(ZeroDivisionError):
                inner()
            assert words(lexicon) == ["云栖", "小镇"]
            with lexicon.temporary_words(["栖小"]):
                assert words(lexicon) == ["云栖", "栖小", "小镇"]
            raise KeyError

    with pytest.raises(KeyError):
        outer()
    assert words(lexicon) == ["小镇"]
    with pytest.raises(TypeError), lexicon.temporary_words(["云栖", 3]):  # type: ignore[list-item]
        pass
    assert words(lexicon) == ["小镇"]
    assert (list(lexicon), lexicon.size) == (["小镇"], 1)


def test_generators_that_end_in_any_order_leave_nothing() -> None:
    lexicon = Lexicon(["小镇"])

    def ask(word: str) -> Iterator[list[str]]:
        with lexicon.temporary_words([word]):
            while True:
                yield words(lexicon)

    first = ask("云栖")
    second = ask("他在")
    assert next(first) == ["云栖", "小镇"]
    assert "他在" in next(second)
    first.close()
    second.close()
    assert words(lexicon) == ["小镇"]
    third = ask("云栖")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(next, third).result(GUARD) == ["云栖", "小镇"]
        assert words(lexicon) == ["小镇"]
    third.close()  # in another thread than where the block began
    assert words(lexicon) == ["小镇"]


def test_a_task_that_outlives_the_block_sees_what_everybody_sees() -> None:
    lexicon = Lexicon(["小镇"])

    async def later(ended: asyncio.Event) -> tuple[list[str], list[str]]:
        inside = words(lexicon)
        await ended.wait()
        return inside, words(lexicon)

    async def work() -> tuple[list[str], list[str]]:
        ended = asyncio.Event()
        with lexicon.temporary_words(["云栖"]):
            task = asyncio.create_task(later(ended))
            await asyncio.sleep(0)
        ended.set()
        return await task

    assert within_guard(work) == (["云栖", "小镇"], ["小镇"])


def test_two_lexicons_and_copies_are_apart() -> None:
    one = Lexicon(["小镇"])
    other = Lexicon(["云栖"])
    with one.temporary_words(["他在"]), other.temporary_words(["栖小"]):
        assert (words(one), words(other)) == (["他在", "小镇"], ["云栖", "栖小"])
        assert words(copy.deepcopy(one)) == ["小镇"]
    assert (words(one), words(other)) == (["小镇"], ["云栖"])


def test_a_block_keeps_no_lexicon_alive(lattice_folder: Path) -> None:
    tagger = load(lattice_folder)
    with tagger.lexicon.temporary_words(["他在云栖"]):
        tagger(TEXT)
        contents = weakref.ref(tagger.lexicon.contents)
    lexicon = weakref.ref(tagger.lexicon)
    gc.disable()
    try:
        assert contents() is None
        del tagger
        assert lexicon() is None
    finally:
        gc.enable()


few = st.text("ab中", min_size=1, max_size=4)
changes = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "label", "enter", "leave"]), few), max_size=30
)


@given(changes, st.text("ab中", max_size=12))
def test_a_block_in_a_block_is_a_copy_that_is_thrown_away(
    steps: list[tuple[str, str]], text: str
) -> None:
    """Against copies of the lexicon, one for each block."""
    lexicon = Lexicon(["ab", "中a"])
    copies = [Lexicon(["ab", "中a"])]
    with ExitStack() as everything:
        blocks: list[ExitStack] = []
        for kind, word in steps:
            if kind == "enter":
                blocks.append(everything.enter_context(ExitStack()))
                blocks[-1].enter_context(lexicon.temporary_words([word], ["ab"]))
                copies.append(copy.deepcopy(copies[-1]))
                copies[-1].add(word)
                copies[-1].remove("ab")
            elif kind == "leave" and blocks:
                blocks.pop().close()
                copies.pop()
            for each in (lexicon, copies[-1]):
                if kind == "add":
                    each.add(word)
                elif kind == "label":
                    each.add(word, label="X")
                elif kind == "remove":
                    each.remove(word)
            assert lexicon.match(text) == copies[-1].match(text)
            assert list(lexicon) == list(copies[-1])
            assert list(lexicon.rules.entries()) == list(copies[-1].rules.entries())
            assert (len(lexicon), lexicon.words) == (len(copies[-1]), copies[-1].words)
