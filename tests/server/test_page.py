"""The page in a real browser: type, see entities, add a word, correct a span, export, and train on
the export.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hanlattice.data.corpus import read_corpus
from hanlattice.predict import load
from tests.helpers.made import made_config
from tests.helpers.patience import PATIENCE
from tests.helpers.running import Server, running

CHROMIUM = Path("/usr/bin/chromium")
api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no browser at {CHROMIUM}")
EVIL = '<script>window.hit=1</script><img src=x onerror="window.hit=1">'


@pytest.fixture(scope="module")
def server(lattice_folder: Path) -> Iterator[Server]:
    with running("-m", lattice_folder, "-m", "seg") as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as play:
        made = play.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox"], timeout=1000 * PATIENCE
        )
        yield made
        made.close()


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    """A fresh page in English, on which no script may fail, and which may fetch from nowhere
    else.
    """
    context = browser.new_context(locale="en-GB", accept_downloads=True)
    context.set_default_timeout(1000 * PATIENCE)
    made = context.new_page()
    wrong = []
    made.on("pageerror", lambda error: wrong.append(error))
    made.on(
        "request",
        lambda each: each.url.startswith((server.url, "data:", "blob:")) or wrong.append(each.url),
    )
    made.goto(server.url + "/#t=")
    made.wait_for_selector("#model option", state="attached")
    yield made
    context.close()
    assert not wrong


def write(page: Any, text: str) -> None:
    page.fill("#text", text)
    page.wait_for_function(
        "text => [...document.querySelectorAll('.line')].length === text.split('\\n').length"
        " && state.lines.map(each => each.text).join('\\n') === text",
        arg=text,
    )


def spans(page: Any, line: int = 0) -> list[tuple[str, str]]:
    rows = page.evaluate(
        f"state.lines[{line}].spans.map(span => [part(state.lines[{line}], span), span.label])"
    )
    return [(text, label) for text, label in rows]


def test_it_shows_what_the_library_finds_as_one_types(page, lattice_folder):
    text = "王小明在青石镇工作。"
    write(page, text)
    assert spans(page) == [(span.text, span.label) for span in load(lattice_folder)(text).spans]
    page.wait_for_selector("#lattice svg")
    page.hover("#lattice g.word text.f-word >> nth=0")
    assert page.inner_text("#about").startswith("without ")
    assert "other spans would be found" in page.inner_text("#legend")
    page.click("[data-view=shares]")
    page.wait_for_selector(
        "#lattice g.word[aria-label*='an even share would be']", state="attached"
    )
    page.hover("#lattice g.word text.f-word >> nth=0")
    assert "share" in page.inner_text("#about")
    assert "of the cell before" in page.inner_text("#legend")
    page.click("[data-view=changes]")
    page.wait_for_selector("#lattice g.word[aria-label^='without ']", state="attached")
    assert page.get_attribute("[data-view=changes]", "aria-pressed") == "true"
    assert "t=%E7%8E%8B" in page.url
    page.reload()
    page.wait_for_selector(".mark")
    assert page.input_value("#text") == text


def test_a_word_counts_at_once_and_is_gone_when_it_is_removed(page, lattice_folder):
    text = "王小明在青石镇工作。"
    word = "小明在青"
    write(page, text)
    page.wait_for_selector("#lattice svg")
    page.fill("#word", word)
    page.press("#word", "Enter")
    page.wait_for_selector("#changes li")
    arc = f"#lattice g.word[aria-label^='without {word}:']"
    page.wait_for_selector(arc, state="attached")
    page.click("#words button")
    page.wait_for_selector(arc, state="detached")
    assert page.query_selector("#changes li") is None
    page.hover("#lattice g.word text.f-word >> nth=0")
    page.click("#about button")  # leave out a word of the model
    page.wait_for_selector("#words .out")
    page.wait_for_selector("#changes li")


def test_words_say_what_they_are(page):
    text = "王小明在青石镇工作。"
    write(page, text)
    for typed, found in (("工作 职业 20", ("工作", "职业")), ("青石镇 PER inf", ("青石镇", "PER"))):
        page.fill("#word", typed)
        page.press("#word", "Enter")
        page.wait_for_function(
            "([text, label]) => state.lines[0].spans.some(each => each.text === text && "
            "each.label === label)",
            arg=[*found],
        )
        assert typed in page.inner_text("#words")
    page.fill("#word", "王小明 -inf")
    page.press("#word", "Enter")
    page.wait_for_function("() => state.lines[0].spans.every(each => each.text !== '王小明')")
    page.reload()  # the address has all of it
    page.wait_for_function("() => state.lines[0]?.spans.some(each => each.label === '职业')")
    sent = {
        "New York": "New York",
        "Louis Vuitton": "Louis Vuitton",
        "Louis Vuitton PER": {"word": "Louis Vuitton", "label": "PER"},
        "拼多多 ORG": {"word": "拼多多", "label": "ORG"},
        "拼多多 ORG -inf": {"word": "拼多多", "label": "ORG", "trust": "-inf"},
        "太/贵 /": {"word": "太/贵", "label": "/"},
        "Louis Vuitton -inf": {"word": "Louis Vuitton", "trust": "-inf"},
        "iPhone 15": "iPhone 15",
        "拼多多 ORG 2.5": {"word": "拼多多", "label": "ORG", "trust": 2.5},
    }
    assert page.evaluate("every => every.map(each => sent(entry(each)))", [*sent]) == [
        *sent.values()
    ]


def test_spans_are_corrected_by_keys_and_exported_and_trained_on(page, tmp_path, made):
    from hanlattice.training.loop import train

    write(page, "王小明在青石镇工作。\n昨天李芳😀去了南湖 😀！\n没有人说话。")
    page.focus(".mark >> nth=0")
    first = spans(page)[0]
    page.keyboard.press("ArrowRight")
    assert spans(page)[0][0] == first[0] + "在"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+ArrowRight")
    assert spans(page)[0][0] == first[0][1:]
    page.keyboard.press("Shift+ArrowLeft")
    labels = page.evaluate("state.model.labels")
    page.keyboard.press(str(labels.index("LOC") + 1))
    assert spans(page)[0] == (first[0], "LOC")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == spans(page)[1][0]
    page.keyboard.press("Delete")
    assert len(spans(page)) == 1
    page.keyboard.press("Enter")
    assert page.inner_text("#count") == "1"
    box = page.evaluate(  # of 人说 in the third line
        "() => { const line = document.querySelectorAll('.line')[2], range = "
        "document.createRange();"
        " range.setStart(line.firstChild, 2); range.setEnd(line.firstChild, 4);"
        " const { left, right, top, bottom } = range.getBoundingClientRect();"
        " return [left, right, (top + bottom) / 2]; }"
    )
    page.mouse.move(box[0] + 1, box[2])
    page.mouse.down()
    page.mouse.move(box[1] - 1, box[2], steps=4)
    page.mouse.up()
    assert spans(page, 2) == [("人说", labels[0])]
    page.click("[data-act=save-all]")
    assert page.inner_text("#count") == "3"
    want = None
    for format in ("jsonl", "bmes", "conll"):
        with page.expect_download() as got:
            page.click(f"[data-export={format}]")
        path = tmp_path / got.value.suggested_filename
        got.value.save_as(path)
        corpus = read_corpus(path)
        found = [(each.text, each.spans) for each in corpus.sentences]
        assert found[0][0] == "王小明在青石镇工作。"
        assert [(span.label, found[0][0][span.start : span.end]) for span in found[0][1]] == [
            ("LOC", first[0])
        ]
        assert want in (None, found)
        want = found
    config = made_config(
        made, data__train=str(path), data__dev=str(path), data__test="", train__epochs=1
    )
    assert load(train(config, tmp_path / "model").folder)("王小明").text == "王小明"


def test_words_cover_the_text_however_they_are_corrected(page, tmp_path):
    page.select_option("#model", "seg")
    write(page, "南京市长江大桥 很长")
    page.focus(".mark >> nth=0")
    for key in ("ArrowRight", "ArrowLeft", "ArrowLeft", "Shift+ArrowRight", "Delete"):
        page.keyboard.press(key)
        assert "".join(text for text, _ in spans(page)) == "南京市长江大桥很长"
    page.click("[data-act=save-all]")
    with page.expect_download() as got:
        page.click("[data-export=jsonl]")
    got.value.save_as(tmp_path / "words.jsonl")
    assert {span.label for span in read_corpus(tmp_path / "words.jsonl").sentences[0].spans} == {
        "WORD"
    }


def test_a_file_is_tagged_and_downloaded(page, tmp_path, lattice_folder):
    lines = [f"王小明去了南湖{at}。" for at in range(150)]
    (tmp_path / "in.txt").write_text("\n".join(lines), encoding="utf-8")
    page.set_input_files("#file", tmp_path / "in.txt")
    page.wait_for_selector("#downloads", state="visible")
    with page.expect_download() as got:
        page.click("[data-download=jsonl]")
    got.value.save_as(tmp_path / "out.jsonl")
    found = read_corpus(tmp_path / "out.jsonl").sentences
    assert [each.text for each in found] == lines
    assert list(found[0].spans) == list(load(lattice_folder)(lines[0]).spans)


def test_markup_stays_text(page, server):
    """In the text, in the dictionary, in the address, and in the labels of a model."""
    write(page, f"王小明{EVIL}在青石镇")
    page.wait_for_selector("#lattice svg")
    page.fill("#word", EVIL)
    page.press("#word", "Enter")
    page.wait_for_selector("#words li")
    assert EVIL in page.inner_text("#words")
    page.wait_for_timeout(600)
    page.evaluate("document.querySelectorAll('#lattice g[tabindex]').forEach(each => each.focus())")
    page.goto(f"{server.url}/#l=zh&t={quote(EVIL)}&w={quote(EVIL)}&m={quote(EVIL)}")
    page.wait_for_function("() => state.lang === 'zh' && state.lines.length")
    page.evaluate(
        "evil => { state.model.labels = [evil]; state.lines[0].spans = [{start: 0, end: 2, "
        "label: evil}];"
        " show(); buttons(); }",
        EVIL,
    )
    assert EVIL in page.inner_text("#labels")
    page.focus(".mark")
    page.wait_for_timeout(300)
    assert page.evaluate("window.hit") is None
    assert page.evaluate("document.querySelectorAll('main script, main img').length") == 0


@pytest.mark.parametrize(("scheme", "width"), [("light", 1000), ("dark", 1000), ("light", 360)])
def test_it_fits_the_screen_and_has_names_for_everything(browser, server, scheme, width):
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 800}, locale="zh-CN"
    )
    context.set_default_timeout(1000 * PATIENCE)
    page = context.new_page()
    page.goto(f"{server.url}/#t={quote('王小明在青石镇工作。昨天李芳去了南湖！')}")
    page.wait_for_selector("#lattice svg")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for view in ("changes", "shares"):  # nothing of the picture or of its legend is cut off
        page.click(f"[data-view={view}]")
        page.wait_for_selector(f"[data-view={view}][aria-pressed=true]")
        assert (
            page.evaluate(
                "() => { const svg = document.querySelector('#lattice svg'), edge = "
                "svg.getBoundingClientRect();"
                " return [...svg.querySelectorAll('text')].filter(each => { const box = "
                "each.getBoundingClientRect();"
                " return box.left < edge.left - 1 || box.right > edge.right + 1 || box.bottom "
                "> edge.bottom + 1; })"
                ".map(each => each.textContent); }"
            )
            == []
        )
        assert page.evaluate("$('legend').scrollWidth <= $('legend').clientWidth")
    assert page.evaluate("document.documentElement.lang") == "zh"
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[scheme]
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, input, select, textarea, "
        "[tabindex]')].filter(each => !("
        "each.textContent.trim() || each.ariaLabel || each.getAttribute('aria-labelledby') || "
        "each.labels?.length"
        ")).length"
    )
    assert nameless == 0
    context.close()


def test_the_token_is_asked_for(browser, lattice_folder, tmp_path):
    (tmp_path / "token").write_text("geheim")
    with running("-m", lattice_folder, "--token-file", tmp_path / "token") as server:
        page = browser.new_page(locale="en-GB")
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(f"{server.url}/#t={quote('王小明')}")
        page.wait_for_selector("#token", state="visible")
        page.fill("#token", "geheim")
        page.press("#token", "Enter")
        page.wait_for_selector(".mark")
        assert spans(page)
        page.close()
