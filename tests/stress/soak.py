"""Concurrency: models shared by 16 threads, an event loop, forked and spawned processes, while
words come and go.

`python -m tests.stress.soak SECONDS` (make soak). Every answer must be one that a process without
threads gives with some of the CHANGING words; a thread, child or process that hangs ends it, and so
does memory that goes on growing.
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
PLAIN = [each.word if isinstance(each, Entry) else each for each in CHANGING]
# of a request: other threads never see the one, and always the other
BORROWED = "没有去"
WITHOUT = "北京"
FILLERS = [f"{a}{b}{c}" for a in "甲乙丙丁" for b in "子丑寅卯" for c in "金木水火"]  # in no text
READERS = 16
Right = dict[str, list[list[tuple[Span, ...]]]]  # by model and text: the answers that are possible


def serial(name: str) -> list[list[tuple[Span, ...]]]:
    """For each text what is found with each choice of the changing words, by one thread."""
    tagger = load_without(name)
    found = [list[tuple[Span, ...]]() for _ in TEXTS]
    for chosen in product((False, True), repeat=len(CHANGING)):
        with tagger.lexicon.temporary_words(compress(CHANGING, chosen)):
            for row, text in zip(found, TEXTS, strict=True):
                spans = tagger(text).spans
                if not any(is_same(spans, each) for each in row):
                    row.append(spans)
    return found


def load_without(name: str) -> Predictor:
    """The model without the changing words, of which it may have some itself."""
    tagger = load(name)
    for word in PLAIN:
        tagger.lexicon.remove(word)
    return tagger


def is_same(found: tuple[Span, ...], right: tuple[Span, ...]) -> bool:
    near = all(
        abs((a.score or 0) - (b.score or 0)) < 1e-4 for a, b in zip(found, right, strict=False)
    )
    return found == right and near


class Soak:
    def __init__(self, right: Right, seconds: float) -> None:
        self.right, self.models = right, {name: load_without(name) for name in right}
        self.plain = {
            name: [tagger(text).spans for text in TEXTS] for name, tagger in self.models.items()
        }
        self.end = time.monotonic() + seconds
        self.counts = Counter[str]()
        self.beats = dict[str, float]()
        self.wrong: list[str] = []
        self.memory: list[int] = []

    def check(self, name: str, at: int, document: Document, how: str) -> None:
        if not any(is_same(document.spans, each) for each in self.right[name][at]):
            self.wrong.append(f"{name}, {how}: {TEXTS[at]!r}: {document.spans}")

    def working(self) -> Iterator[random.Random]:
        """Until the time is over, or something is wrong."""
        chance = random.Random(threading.current_thread().name)
        name = threading.current_thread().name
        while time.monotonic() < self.end and not self.wrong:
            self.beats[name] = time.monotonic()
            yield chance
        self.beats.pop(name, None)

    def read(self) -> None:
        for chance in self.working():
            name = chance.choice(list(self.models))
            at = chance.randrange(len(TEXTS))
            tagger = self.models[name]
            if chance.random() < 0.5:
                self.check(name, at, tagger(TEXTS[at]), "one text")
                self.counts["answers"] += 1
                continue
            order = chance.sample(range(len(TEXTS)), 4)
            found = tagger.pipe(
                [TEXTS[each] for each in order],
                chance.randint(1, 4),
                candidates=chance.choice((0, 2)),
            )
            for each, document in zip(order, found, strict=True):
                self.check(name, each, document, "pipe")
                self.counts["answers"] += 1

    def change(self) -> None:
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
        """A request's own words, as the server has them: what it finds is exactly what one process
        finds.
        """
        for chance in self.working():
            name = chance.choice(list(self.models))
            at = chance.randrange(len(TEXTS))
            tagger = self.models[name]
            with tagger.lexicon.temporary_words((), PLAIN):
                if not is_same(tagger(TEXTS[at]).spans, self.plain[name][at]):
                    self.wrong.append(f"{name}, borrowed: {TEXTS[at]!r}")
            with tagger.lexicon.temporary_words([BORROWED, Entry("小明", "GPE")], [WITHOUT]):
                tagger(TEXTS[at])
            self.counts["borrowed"] += 2
            time.sleep(0.005)

    def loop(self) -> None:
        async def ask(chance: random.Random) -> None:
            name = chance.choice(list(self.models))
            order = chance.choices(range(len(TEXTS)), k=8)
            calls = (asyncio.to_thread(self.models[name], TEXTS[at]) for at in order)
            for at, document in zip(order, await asyncio.gather(*calls), strict=True):
                self.check(name, at, document, "asyncio")
                self.counts["answers"] += 1

        async def all_of_it() -> None:
            for chance in self.working():
                await ask(chance)

        asyncio.run(all_of_it())

    def fork(self) -> None:
        """A child of the process with all these threads: whatever they hold, it tags, and adds a
        word.
        """
        if child := os.fork():
            os.waitid(
                os.P_PID, child, os.WEXITED | os.WNOWAIT
            )  # the kernel still knows how long it ran
            computed, waited = (
                int(each) / 1e9 for each in Path(f"/proc/{child}/schedstat").read_text().split()[:2]
            )
            if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
                # Starved; else it hung.
                was = f"after {computed:.1f} s on a core and {waited:.1f} s waiting for one"
                self.wrong.append(f"a forked child ended with {code} {was}")
                sys.stderr.write(f"{self.wrong[-1]}; its parent:\n")
                sys.stderr.flush()
                faulthandler.dump_traceback()
            self.counts["forked"] += 1
            return
        code = 3
        try:
            faulthandler.register(signal.SIGALRM, chain=True)  # says where it hangs
            signal.alarm(int(PATIENCE))
            for name, tagger in self.models.items():
                for at, document in enumerate(tagger(list(TEXTS))):
                    self.check(name, at, document, "forked")
                tagger.lexicon.add("叶公好龙")
                tagger("叶公好龙")
            sys.stderr.write("".join(f"{line}\n" for line in self.wrong))
            code = bool(self.wrong)
        finally:
            os._exit(code)

    def spawn(self) -> None:
        process = multiprocessing.get_context("spawn").Process(
            target=check_spawned, args=(self.right,)
        )
        process.start()
        process.join(1.2 * PATIENCE)
        if process.exitcode != 0:
            self.wrong.append(f"a spawned process ended with {process.exitcode}")
        self.counts["spawned"] += 1

    def run(self) -> dict[str, float]:
        """What was done; an error if an answer was wrong, or memory grew."""
        jobs: list[Callable[[], None]] = [
            *[self.read] * READERS,
            self.change,
            self.borrow,
            self.loop,
        ]
        started = [
            threading.Thread(target=self.guarded, args=(job,), name=f"{n}")
            for n, job in enumerate(jobs)
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
            late = [
                name
                for name, beat in self.beats.copy().items()
                if time.monotonic() - beat > PATIENCE
            ]
            if late:
                self.wrong.append(f"threads {', '.join(late)} do not go on")
                faulthandler.dump_traceback()
            started[0].join(every)
        faulthandler.cancel_dump_traceback_later()
        if self.wrong:
            raise AssertionError("\n".join(self.wrong[:5]))
        fifth = max(1, len(self.memory) // 5)
        first, last = (
            statistics.median(part)
            for part in (self.memory[fifth : 2 * fifth] or [0], self.memory[-fifth:])
        )
        seconds = time.monotonic() - begin
        return {
            "seconds": round(seconds),
            **self.counts,
            "MiB in the second fifth": first,
            "in the last": last,
        }

    def guarded(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            self.wrong.append(f"{job.__name__}: {type(error).__name__}: {error}")
            raise


def check_spawned(right: Right) -> None:
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    for name, rows in right.items():
        tagger = load_without(name)
        for document, answers in zip(tagger.pipe(TEXTS), rows, strict=True):
            assert any(is_same(document.spans, each) for each in answers), document
    os._exit(0)


def resident() -> int:
    """MiB of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


def main(seconds: float) -> None:
    threads.use(2)
    done = Soak({name: serial(name) for name in ("ner", "seg")}, seconds).run()
    print(json.dumps(done), flush=True)  # noqa: T201
    if seconds >= 600 and done["in the last"] > 1.05 * done["MiB in the second fifth"]:
        raise SystemExit("memory grows")


if __name__ == "__main__":
    main(float(sys.argv[1]))
