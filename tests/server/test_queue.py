"""The queue: batches by characters and key, turns, bounds, and what leaves it early."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from hanlattice.errors import InputError
from hanlattice.explain.changes import PART
from hanlattice.predict import Document, Predictor, load
from hanlattice.server import queue as module
from hanlattice.server.limits import Limits, RequestError
from hanlattice.server.queue import Queue
from hanlattice.server.schema import CheckedRequest, Key, ServedModel, TagRequest, answer
from hanlattice.server.stream import TextStream
from tests.helpers.made import sentences
from tests.helpers.patience import PATIENCE

MODELS: Any = {"m": SimpleNamespace(predictor=SimpleNamespace(limit=10))}
KEY = Key("documents", "m")


class Gate:
    """In place of the computation: it notes each batch, and waits until it may go on."""

    def __init__(self) -> None:
        self.batches: list[tuple[Key, list[str]]] = []
        self.may = threading.Semaphore(0)

    def __call__(self, models: Any, key: Key, texts: Sequence[str], pause: Any) -> list[Document]:
        self.batches.append((key, list(texts)))
        assert self.may.acquire(timeout=PATIENCE)
        if any("多" in text for text in texts):
            raise InputError("too many words")
        if any("毒" in text for text in texts):
            raise ValueError("poison")
        return [Document(text, ()) for text in texts]


def ask(*texts: str, key: Key = KEY) -> CheckedRequest:
    return CheckedRequest(
        key, texts, TagRequest(text=texts[0]) if len(texts) == 1 else TagRequest(texts=list(texts))
    )


def run(
    test: Callable[[Queue, Gate], Coroutine[Any, Any, None]],
    monkeypatch: pytest.MonkeyPatch,
    **limits: Any,
) -> None:
    gate = Gate()
    monkeypatch.setattr(module, "compute", gate)

    async def go() -> None:
        queue = Queue(MODELS, Limits(**{"batch_ms": 0, **limits}))
        try:
            await asyncio.wait_for(test(queue, gate), PATIENCE)
        finally:
            queue.close()
            gate.may.release(1000)
            await asyncio.to_thread(queue.thread.join)

    asyncio.run(go())


async def busy(gate: Gate, count: int = 1) -> None:
    while len(gate.batches) < count:
        await asyncio.sleep(0.005)


def test_what_waits_together_is_computed_together_up_to_the_bound(monkeypatch):
    async def test(queue, gate):
        jobs = [queue.put(ask("一"))]
        await busy(gate)
        jobs += [queue.put(ask(f"文{at}")) for at in range(7)]
        gate.may.release(10)
        found = [(await job.future)[0].text for job in jobs]
        assert found == ["一", *(f"文{at}" for at in range(7))]
        assert [len(texts) for _, texts in gate.batches] == [1, 5, 2]
        assert (queue.turns, queue.total, len(queue.jobs)) == (0, 0, 0)

    run(test, monkeypatch, batch_chars=10)


def test_an_idle_worker_waits_a_little_for_more(monkeypatch):
    async def test(queue, gate):
        gate.may.release(10)
        jobs = [queue.put(ask("一"))]
        await asyncio.sleep(0.01)
        jobs.append(queue.put(ask("二")))  # which fills the batch
        for job in jobs:
            await job.future
        assert [texts for _, texts in gate.batches] == [["一", "二"]]

    run(test, monkeypatch, batch_ms=1000 * PATIENCE, batch_chars=2)


def test_a_short_request_does_not_wait_for_a_long_one(monkeypatch):
    async def test(queue, gate):
        long = queue.put(ask("长" * 100))  # ten pieces
        await busy(gate)
        short = queue.put(ask("短"))
        gate.may.release(
            3
        )  # two pieces of the long one, and the short one between them and the rest
        assert (await short.future)[0].text == "短"
        assert not long.future.done()
        gate.may.release(100)
        assert (await long.future)[0].text == "长" * 100

    run(test, monkeypatch, batch_chars=10)


def test_texts_with_other_words_are_another_batch_and_come_in_turn(monkeypatch):
    async def test(queue, gate):
        own = KEY._replace(dictionary=("词语",))
        jobs = [queue.put(ask("一"))]
        await busy(gate)
        jobs += [queue.put(ask("二", key=own)), queue.put(ask("三")), queue.put(ask("四", key=own))]
        gate.may.release(10)
        for job in jobs:
            await job.future
        assert gate.batches == [(KEY, ["一"]), (own, ["二", "四"]), (KEY, ["三"])]

    run(test, monkeypatch)


def test_beyond_the_bound_it_refuses_and_says_when_to_come_again(monkeypatch):
    async def test(queue, gate):
        first = queue.put(ask("一" * 10))
        await busy(gate)
        waiting = [queue.put(ask("二" * 9)), queue.put(ask("三" * 9))]
        with pytest.raises(RequestError) as refused:
            queue.put(ask("四"))
        assert refused.value.status == 429
        assert refused.value.retry_after >= 1
        assert not queue.has_room
        queue.cancel(waiting[0])
        waiting.append(queue.put(ask("四")))
        gate.may.release(10)
        for job in (first, *waiting[1:]):
            await job.future
        assert "二" * 9 not in [text for _, texts in gate.batches for text in texts]

    run(test, monkeypatch, queue=20)


def test_what_is_refused_can_be_refused_before_it_is_read(monkeypatch):
    """Before, as long as a single character had room nothing was, and refusing cost what accepting
    costs.
    """

    async def test(queue, gate):
        queue.put(ask("一" * 10))
        await busy(gate)
        for _ in range(3):
            assert queue.has_room
            queue.put(ask("二" * 9))
        assert not queue.has_room
        with pytest.raises(RequestError):
            queue.put(ask("三"))

    run(test, monkeypatch, queue=25)


def test_what_would_fill_the_queue_does_not_wait_in_it(monkeypatch):
    async def test(queue, gate):
        queue.put(ask("一"))
        await busy(gate)
        queue.put(ask("二"))
        with pytest.raises(RequestError):
            queue.put(
                ask("长" * 10, key=KEY._replace(kind="explanations", without=True))
            )  # as much as 100 characters
        assert queue.has_room
        queue.put(ask("三"))

    run(test, monkeypatch, queue=50)


def test_of_a_long_request_only_its_next_piece_counts_but_memory_is_bounded(monkeypatch):
    async def test(queue, gate):
        queue.put(ask("一" * 50))
        await busy(gate)
        queue.put(ask("二" * 50))
        with pytest.raises(RequestError):
            queue.put(ask("三" * 50))
        queue.put(ask("四"))

    run(test, monkeypatch, queue=100, queue_total=120, batch_chars=10)


def test_a_text_that_fails_fails_alone(monkeypatch):
    async def test(queue, gate):
        jobs = [queue.put(ask("一"))]
        await busy(gate)
        jobs += [queue.put(ask("二")), queue.put(ask("毒", "三")), queue.put(ask("四"))]
        gate.may.release(20)
        results = await asyncio.gather(*(job.future for job in jobs), return_exceptions=True)
        assert [isinstance(each, ValueError) for each in results] == [False, False, True, False]
        assert (queue.turns, queue.total) == (0, 0)

    run(test, monkeypatch)


def test_what_fails_in_a_stream_is_in_the_log(monkeypatch, caplog):
    async def test(queue: Queue, gate: Gate) -> None:
        gate.may.release()
        service: Any = SimpleNamespace(queue=queue, limits=queue.limits)
        found = await TextStream(service)._result(queue.put(ask("毒")))
        assert found["error"]["status"] == 500

    run(test, monkeypatch)
    assert "ValueError: poison" in caplog.text


def test_a_text_that_asks_for_too_much_is_refused_and_the_others_are_answered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(queue: Queue, gate: Gate) -> None:
        gate.may.release(20)
        first = queue.put(ask("一"))
        await busy(gate)
        jobs = [queue.put(ask("二")), queue.put(ask("多"))]
        results = await asyncio.gather(*(job.future for job in jobs), return_exceptions=True)
        assert results[0] == [Document("二", ())]
        assert isinstance(results[1], RequestError)
        assert results[1].status == 422
        assert "too many words" in str(results[1])
        service: Any = SimpleNamespace(queue=queue, limits=queue.limits)
        line = await TextStream(service)._result(queue.put(ask("多")))
        assert line["error"]["status"] == 422
        await first.future

    run(test, monkeypatch)
    assert not caplog.records


def test_nothing_to_compute_is_an_answer(monkeypatch):
    async def test(queue, gate):
        assert await queue.put(ask()).future == []

    run(test, monkeypatch)


def test_what_is_quick_does_not_wait_for_an_explanation_to_end(lattice_folder):
    """It is computed while words are left out, unless the explanation has words of its own, which
    nobody else sees.
    """
    tagger = load(lattice_folder)
    text = "".join(sentence.text for sentence in sentences(30, 5))[:150]
    explained = Key("explanations", "m", without=True)
    assert len(tagger.explain(text).words) * len(text) > 2 * PART
    for key, order in (
        (explained, "quick slow"),
        (explained._replace(dictionary=("小明在北京",)), "slow quick"),
    ):
        found, ended = asyncio.run(_both(tagger, ask(text, key=key), ask("小明在北京工作。")))
        assert " ".join(ended) == order
        with tagger.lexicon.temporary_words(key.dictionary):
            slow = tagger.explain(text, without=True)
        for mine, theirs in zip(found["slow"][0].without, slow.without, strict=True):
            assert (mine.first, mine.spans) == (theirs.first, theirs.spans)
            assert mine.scores == pytest.approx(
                theirs.scores, abs=1e-6
            )  # smaller batches round otherwise
        assert found["quick"] == [tagger("小明在北京工作。")]


async def _both(
    tagger: Predictor, slow: CheckedRequest, quick: CheckedRequest
) -> tuple[dict[str, list[Any]], list[str]]:
    """What came of both, of which the slow one begins, and in which order they ended."""
    queue = Queue({"m": ServedModel("m", tagger)}, Limits(queue=1_000_000))
    ended = []
    with queue.condition:
        jobs = {"slow": queue.put(slow), "quick": queue.put(quick)}
    for name, job in jobs.items():
        job.future.add_done_callback(lambda _, name=name: ended.append(name))
    found = {name: await job.future for name, job in jobs.items()}
    await asyncio.sleep(0)
    queue.close()
    await asyncio.to_thread(queue.thread.join)
    assert (queue.turns, queue.total) == (0, 0)
    return found, ended


def test_pieces_give_what_the_library_gives(lattice_folder):
    """With candidates too, in texts of many pieces, however they share batches."""
    predictor = load(lattice_folder)
    predictor.limit = 12
    models = {"m": ServedModel("m", predictor)}
    texts = ("王小明在青石镇工作。" * 7, "", "昨天李芳和张伟到南湖开会", "今天 天气\t很好，" * 5)
    want = list(predictor.pipe(texts, candidates=4))

    async def go() -> list[Any]:
        queue = Queue(models, Limits(batch_chars=30))
        try:
            key = Key("documents", "m", n=4)
            job = queue.put(ask(*texts, key=key))
            return [await job.future, await queue.put(ask(texts[0], key=key)).future]
        finally:
            queue.close()
            await asyncio.to_thread(queue.thread.join)

    found, one = asyncio.run(go())
    assert [each.text for each in found] == list(texts)
    for left, right in zip(found, want, strict=True):
        assert left.spans == right.spans
        assert [span.score for span in left.spans] == pytest.approx(
            [span.score for span in right.spans], abs=1e-5
        )
        best = [[(span.text, span.label) for span in each.candidates] for each in (left, right)]
        assert sorted(best[0]) == sorted(best[1])  # of equals in one text, rounding chooses
    assert answer(ask(texts[0], key=Key("documents", "m", n=4)), one)["text"] == texts[0]
