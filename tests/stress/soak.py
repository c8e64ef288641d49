"""Share models between threads, an event loop and processes, while words are added and removed.

`python -m tests.stress.soak SECONDS` (`make soak`). Every answer must be one that a process without
threads gives with some of the `CHANGING` words. A thread or process that hangs ends the run, and so
does memory that keeps growing.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import math
import multiprocessing
import os
import random
import signal
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import compress, product
from pathlib import Path

from hanlattice.document import Document
from hanlattice.ops import threads
from hanlattice.predict import Predictor, load
from hanlattice.text.dictionary import Entry
from hanlattice.text.span import Span
from tests.helpers.patience import PATIENCE

TEXTS = (
    "昨天云栖小镇的大会上，张一鸣谈到了量子波动速读。",
    "国家主席江泽民在北京会见了联合国秘书长安南。",
    "量子波动速读班开在云栖小镇，王小明没有去 New York。",
    "南京市长江大桥",
    "张一鸣 2012 年在北京创办字节跳动。",
    "　",
    "小明说：“明天去上海！”",
)
CHANGING = (
    "云栖小镇",
    Entry("张一鸣", "ORG", math.inf),
    Entry("量子波动速读", "LOC"),
    Entry("长江大桥", "", -math.inf),
)
PLAIN = [word.word if isinstance(word, Entry) else word for word in CHANGING]
# A request adds the first word and removes the second one; other threads must not see that.
BORROWED = "没有去"
WITHOUT = "北京"
# Words that are in no text
FILLERS = [f"{a}{b}{c}" for a in "甲乙丙丁" for b in "子丑寅卯" for c in "金木水火"]
READERS = 16
# The possible answers, by model and text
Right = dict[str, list[list[tuple[Span, ...]]]]


def serial(name: str) -> list[list[tuple[Span, ...]]]:
    """Return all answers to each text, with every choice of the changing words, in one thread."""
    tagger = load_without(name)
    answers = [list[tuple[Span, ...]]() for _ in TEXTS]
    for chosen in product((False, True), repeat=len(CHANGING)):
        with tagger.lexicon.temporary_words(compress(CHANGING, chosen)):
            for known, text in zip(answers, TEXTS, strict=True):
                spans = tagger(text).spans
                if not any(is_same(spans, answer) for answer in known):
                    known.append(spans)
    return answers


def load_without(name: str) -> Predictor:
    """Load a model without the changing words, some of which it may know."""
    tagger = load(name)
    for word in PLAIN:
        tagger.lexicon.remove(word)
    return tagger


def is_same(spans: tuple[Span, ...], right: tuple[Span, ...]) -> bool:
    """Return whether spans are equal, and their scores nearly so."""
    pairs = zip(spans, right, strict=False)
    return spans == right and all(abs((a.score or 0) - (b.score or 0)) < 1e-4 for a, b in pairs)


class Soak:
    """Models, the threads that use them, and what went wrong."""

    def __init__(self, right: Right, seconds: float) -> None:
        self.right = right
        self.models = {name: load_without(name) for name in right}
        self.plain = {
            name: [tagger(text).spans for text in TEXTS] for name, tagger in self.models.items()
        }
        self.end = time.monotonic() + seconds
        self.counts = Counter[str]()
        self.beats = dict[str, float]()
        self.wrong: list[str] = []
        self.memory: list[int] = []

    def check(self, name: str, text: int, document: Document, how: str) -> None:
        """Check that a document is one of the possible answers."""
        if not any(is_same(document.spans, answer) for answer in self.right[name][text]):
            self.wrong.append(f"{name}, {how}: {TEXTS[text]!r}: {document.spans}")

    def working(self) -> Iterator[random.Random]:
        """Yield random numbers until the time is over, or something is wrong."""
        chance = random.Random(threading.current_thread().name)
        name = threading.current_thread().name
        while time.monotonic() < self.end and not self.wrong:
            self.beats[name] = time.monotonic()
            yield chance
        self.beats.pop(name, None)

    def read(self) -> None:
        """Tag texts, alone and in batches."""
        for chance in self.working():
            name = chance.choice(list(self.models))
            text = chance.randrange(len(TEXTS))
            tagger = self.models[name]
            if chance.random() < 0.5:
                self.check(name, text, tagger(TEXTS[text]), "one text")
                self.counts["answers"] += 1
                continue
            order = chance.sample(range(len(TEXTS)), 4)
            size = chance.randint(1, 4)
            texts = [TEXTS[text] for text in order]
            documents = tagger.pipe(texts, size, candidates=chance.choice((0, 2)))
            for text, document in zip(order, documents, strict=True):
                self.check(name, text, document, "pipe")
                self.counts["answers"] += 1

    def change(self) -> None:
        """Add and remove words."""
        for chance in self.working():
            lexicon = self.models[chance.choice(list(self.models))].lexicon
            word = chance.choice([*CHANGING, *chance.sample(FILLERS, 8)])
            if chance.random() < 0.5:
                lexicon.add_many([word])
            else:
                lexicon.remove(word.word if isinstance(word, Entry) else word)
            self.counts["words changed"] += 1
            time.sleep(0.002)

    def borrow(self) -> None:
        """Tag texts with the words of one request, as the server does."""
        for chance in self.working():
            name = chance.choice(list(self.models))
            text = chance.randrange(len(TEXTS))
            tagger = self.models[name]
            # Without the changing words, only one answer is possible.
            with tagger.lexicon.temporary_words((), PLAIN):
                if not is_same(tagger(TEXTS[text]).spans, self.plain[name][text]):
                    self.wrong.append(f"{name}, borrowed: {TEXTS[text]!r}")
            with tagger.lexicon.temporary_words([BORROWED, Entry("小明", "GPE")], [WITHOUT]):
                tagger(TEXTS[text])
            self.counts["borrowed"] += 2
            time.sleep(0.005)

    def loop(self) -> None:
        """Tag texts from an event loop."""

        async def ask(chance: random.Random) -> None:
            name = chance.choice(list(self.models))
            order = chance.choices(range(len(TEXTS)), k=8)
            calls = (asyncio.to_thread(self.models[name], TEXTS[text]) for text in order)
            for text, document in zip(order, await asyncio.gather(*calls), strict=True):
                self.check(name, text, document, "asyncio")
                self.counts["answers"] += 1

        async def all_of_it() -> None:
            for chance in self.working():
                await ask(chance)

        asyncio.run(all_of_it())

    def fork(self) -> None:
        """Tag texts and add a word in a forked child, whatever locks the threads hold."""
        if child := os.fork():
            # With WNOWAIT, the kernel still knows how long the child ran.
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
            schedstat = Path(f"/proc/{child}/schedstat").read_text().split()
            computed, waited = (int(nanoseconds) / 1e9 for nanoseconds in schedstat[:2])
            if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
                # A child that waited for a core was starved; otherwise it hung.
                was = f"after {computed:.1f} s on a core and {waited:.1f} s waiting for one"
                self.wrong.append(f"a forked child ended with {code} {was}")
                sys.stderr.write(f"{self.wrong[-1]}; its parent:\n")
                sys.stderr.flush()
                faulthandler.dump_traceback()
            self.counts["forked"] += 1
            return
        code = 3
        try:
            # Print where it hangs.
            faulthandler.register(signal.SIGALRM, chain=True)
            signal.alarm(int(PATIENCE))
            for name, tagger in self.models.items():
                for text, document in enumerate(tagger(list(TEXTS))):
                    self.check(name, text, document, "forked")
                tagger.lexicon.add("叶公好龙")
                tagger("叶公好龙")
            sys.stderr.write("".join(f"{line}\n" for line in self.wrong))
            code = bool(self.wrong)
        finally:
            os._exit(code)

    def spawn(self) -> None:
        """Tag texts in a new process."""
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=check_spawned, args=(self.right,))
        process.start()
        process.join(1.2 * PATIENCE)
        if process.exitcode != 0:
            self.wrong.append(f"a spawned process ended with {process.exitcode}")
        self.counts["spawned"] += 1

    def run(self) -> dict[str, float]:
        """Run all threads, and return what was done. Raise an error if an answer was wrong."""
        jobs: list[Callable[[], None]] = [self.read] * READERS
        jobs += [self.change, self.borrow, self.loop]
        started = [
            threading.Thread(target=self.guarded, args=(job,), name=f"{number}")
            for number, job in enumerate(jobs)
        ]
        begin = time.monotonic()
        every = min(5.0, (self.end - begin) / 3)
        for thread in started:
            thread.start()
        while any(thread.is_alive() for thread in started):
            faulthandler.dump_traceback_later(2 * PATIENCE, exit=True)
            self.fork()
            if self.counts["forked"] % 12 == 2:
                self.spawn()
            self.memory.append(resident())
            # A copy, because threads change the dictionary.
            beats = self.beats.copy().items()
            if late := [name for name, beat in beats if time.monotonic() - beat > PATIENCE]:
                self.wrong.append(f"threads {', '.join(late)} do not go on")
                faulthandler.dump_traceback()
            started[0].join(every)
        faulthandler.cancel_dump_traceback_later()
        if self.wrong:
            raise AssertionError("\n".join(self.wrong[:5]))
        # In its first fifth, a run fills its caches.
        fifth = max(1, len(self.memory) // 5)
        return {
            "seconds": round(time.monotonic() - begin),
            **self.counts,
            "MiB in the second fifth": statistics.median(self.memory[fifth : 2 * fifth] or [0]),
            "in the last": statistics.median(self.memory[-fifth:]),
        }

    def guarded(self, job: Callable[[], None]) -> None:
        """Run the job of a thread, and record its error."""
        try:
            job()
        except BaseException as error:
            self.wrong.append(f"{job.__name__}: {type(error).__name__}: {error}")
            raise


def check_spawned(right: Right) -> None:
    """Check the answers of a new process."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    for name, rows in right.items():
        tagger = load_without(name)
        for document, answers in zip(tagger.pipe(TEXTS), rows, strict=True):
            assert any(is_same(document.spans, answer) for answer in answers), document
    os._exit(0)


def resident() -> int:
    """Return how many MiB this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


def main(seconds: float) -> None:
    """Run for some seconds, and print what was done."""
    threads.use(2)
    done = Soak({name: serial(name) for name in ("ner", "seg")}, seconds).run()
    print(json.dumps(done), flush=True)  # noqa: T201
    if seconds >= 600 and done["in the last"] > 1.05 * done["MiB in the second fifth"]:
        raise SystemExit("memory grows")


if __name__ == "__main__":
    main(float(sys.argv[1]))
