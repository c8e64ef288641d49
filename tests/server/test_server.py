"""A real server over the loopback: results, refusals, streams, and clients that misbehave."""

from __future__ import annotations

import http.client
import http.server
import json
import math
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from hanlattice.client import Client, connect
from hanlattice.errors import ServerError
from hanlattice.predict import Predictor, load
from hanlattice.server.limits import Limits
from hanlattice.text.dictionary import Entry
from tests.helpers.command import hanlattice
from tests.helpers.documents import ROOT
from tests.helpers.made import sentences
from tests.helpers.patience import PATIENCE
from tests.helpers.running import Server, running, wait_for
from tests.test_checks import HOSTILE

TEXTS = [each.text for each in sentences(12, 5)]
SMALL = (
    "--max-text",
    "2000",
    "--max-texts",
    "50",
    "--max-words",
    "5",
    "--max-explain",
    "40",
    "--max-body",
    "20000",
)
IMPATIENT = ("--body-timeout", "1", "--idle-timeout", "1", "--stream-timeout", "3")


@pytest.fixture(scope="module")
def server(lattice_folder: Path) -> Iterator[Server]:
    with running("-m", lattice_folder, "-m", "seg", "--cors", "http://page.test", *SMALL) as made:
        yield made


@pytest.fixture
def impatient(lattice_folder: Path) -> Iterator[Server]:
    """A server that waits for nobody, for one test: what a test leaves in its queue is in no
    other's way.
    """
    with running("-m", lattice_folder, *SMALL, *IMPATIENT) as made:
        yield made


@pytest.fixture(scope="module")
def library(lattice_folder: Path) -> Predictor:
    return load(lattice_folder)


def as_record(document: Any) -> dict[str, Any]:
    return {"text": document.text, "spans": [span.as_dict() for span in document.spans]}


def test_it_answers_what_the_library_finds(server, library):
    status, found, _ = server.ask("/v1/tag", {"texts": TEXTS})
    assert (status, found) == (200, {"documents": [as_record(each) for each in library(TEXTS)]})
    long = "王小明在青石镇工作。" * 100
    assert server.ask("/v1/tag", {"text": long})[1] == as_record(library(long))
    assert server.ask("/v1/tag", {"texts": []})[1] == {"documents": []}
    assert server.ask("/v1/tag", {"text": ""})[1] == {"text": "", "spans": []}
    assert server.ask("/v1/tag", {"text": "\ud800王小明\x00"})[0] == 200
    for word in (
        "\ud800王小",
        {"word": "\ud800王", "label": "PER"},
        {"word": "王\udfff", "trust": "-inf"},
    ):
        asked = {"text": "\ud800王小明\x00", "dictionary": [word], "exclude": ["\ud800明"]}
        assert server.ask("/v1/tag", asked)[0] == 200


def test_options_are_those_of_the_library(server, library):
    text = TEXTS[0]
    candidates = server.ask("/v1/tag", {"text": text, "candidates": 3})[1]["candidates"]
    assert candidates == [span.as_dict() for span in library.candidates(text, 3)]
    readings = server.ask("/v1/tag", {"text": text, "readings": 3})[1]["readings"]
    assert [each["score"] for each in readings] == pytest.approx(
        [each.score for each in library.readings(text, 3)]
    )
    (document,) = library.pipe([text], min_score=0.5)
    assert server.ask("/v1/tag", {"text": text, "min_score": 0.5})[1] == as_record(document)
    assert "score" not in server.ask("/v1/tag", {"text": text, "scores": False})[1]["spans"][0]
    explained = server.ask("/v1/explain", {"text": text, "without": True, "svg": True})[1]
    svg = explained.pop("svg")
    names = explained.pop("tag_names")
    assert svg.startswith("<svg")
    assert names == list(library.explain(text).tag_names)
    assert explained == library.explain(text, True).to_dict()


def test_words_come_from_a_segmenter(server):
    status, found, _ = server.ask("/v1/segment", {"text": "南京市长江大桥"})
    assert (status, "".join(found["words"])) == (200, "南京市长江大桥")
    own = server.ask(
        "/v1/segment", {"text": "南京市长江大桥", "dictionary": ["市长江大"], "trust": 50}
    )[1]
    assert own["words"] == ["南京", "市长江大", "桥"]
    assert server.ask("/v1/segment", {"text": "南京市长江大桥"})[1] == found


def test_a_request_says_what_its_words_are(server, library):
    text = "王小明在青石镇工作。"
    plain = server.ask("/v1/tag", {"text": text})[1]
    own = [{"word": "工作", "label": "职业"}, {"word": "青石镇", "trust": "-inf"}, "小明在"]
    found = server.ask("/v1/tag", {"text": text, "dictionary": own})[1]
    with library.lexicon.temporary_words(
        [Entry("工作", "职业"), Entry("青石镇", "", -math.inf), "小明在"]
    ):
        assert found == as_record(library(text))
    labels = {span["text"]: span["label"] for span in found["spans"]}
    assert (labels.get("工作"), labels.get("青石镇")) == ("职业", None)
    assert server.ask("/v1/tag", {"text": text, "dictionary": own, "trust": 0})[1] != found
    assert server.ask("/v1/tag", {"text": text})[1] == plain
    client = connect(server.url, model=server.ask("/v1/models")[1]["models"][0]["name"])
    assert client.lexicon.add("工作", label="职业")
    assert not client.lexicon.add("工作", label="职业")
    assert client.lexicon.add("青石镇", trust=-math.inf)
    assert client.lexicon.add("小明在")
    assert as_record(client(text)) == found


def test_a_dictionary_is_seen_by_no_other_request(server, library):
    """Many at once, each with other words: each gets what the library finds with exactly these."""
    words = [(), ("王小明在",), ("去了",), ("天气很好",), ("在青石镇",)]
    want = {}
    for own in words:
        with library.lexicon.temporary_words(own):
            want[own] = [as_record(each) for each in library(TEXTS)]
    assert len({json.dumps(each) for each in want.values()}) > 1

    def one(at: int) -> bool:
        own = words[at % len(words)]
        return (
            server.ask("/v1/tag", {"texts": TEXTS, "dictionary": own})[1]["documents"] == want[own]
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(40)))


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        ("tag", b"{", 400, None),
        ("tag", b"\xff", 400, None),
        ("tag", b'{"text": NaN}', 400, None),
        ("tag", b"[" * 9000, 400, None),
        ("tag", b'{"text": "a", "text": "b"}', 400, None),
        ("tag", b'{"text": "a", "dictionary": [{"word": "a", "\\ud800": 1}]}', 422, "dictionary"),
        ("tag", b"[]", 422, None),
        ("tag", b"{}", 422, "text"),
        ("tag", {"text": "a", "texts": []}, 422, "text"),
        ("tag", {"text": 1}, 422, "text"),
        ("tag", {"texts": ["a", 1]}, 422, "texts"),
        ("tag", {"text": "a", "wrong": 1}, 422, "wrong"),
        ("tag", {"text": "a", "model": "nothing"}, 404, "model"),
        ("tag", {"text": "a", "model": "seg"}, 422, "model"),
        ("segment", {"text": "a", "model": "lattice"}, 422, "model"),
        ("segment", {"text": "a", "min_score": 0.5}, 422, "min_score"),
        ("tag", {"text": "a", "min_score": 2}, 422, "min_score"),
        ("tag", {"text": "a", "min_score": True}, 422, "min_score"),
        ("tag", {"text": "a", "min_score": 0.1, "scores": False}, 422, "min_score"),
        ("tag", {"text": "a", "candidates": 101}, 422, "candidates"),
        ("tag", {"text": "a", "candidates": 1, "readings": 1}, 422, "readings"),
        ("tag", {"text": "a", "trust": 1001}, 422, "trust"),
        ("tag", {"text": "a", "trust": 10**400}, 422, "trust"),
        ("tag", b'{"text": "a", "trust": ' + b"9" * 5000 + b"}", 400, None),
        ("tag", {"text": "a", "min_score": 10**400}, 422, "min_score"),
        ("tag", {"text": "a", "candidates": 10**400}, 422, "candidates"),
        ("explain", {"text": "a", "width": 10**400}, 422, "width"),
        (
            "tag",
            {"text": "a", "dictionary": [{"word": "工作", "label": "A", "trust": 10**400}]},
            422,
            "dictionary",
        ),
        (
            "tag",
            {"text": "a", "dictionary": [{"word": "工作", "label": "\ud800"}]},
            422,
            "dictionary",
        ),
        (
            "tag",
            {"text": "a", "dictionary": [{"word": "工作", "label": "x" * 257}]},
            422,
            "dictionary",
        ),
        ("tag", {"text": "a", "dictionary": [{"label": "ORG"}]}, 422, "dictionary"),
        ("tag", {"text": "a", "dictionary": [{"word": "工作", "label": "A B"}]}, 422, "dictionary"),
        (
            "tag",
            {"text": "a", "dictionary": [{"word": "工作", "label": "A", "trust": "much"}]},
            422,
            "dictionary",
        ),
        (
            "tag",
            {"text": "a", "dictionary": [{"word": "工" * 65, "label": "A"}]},
            413,
            "dictionary",
        ),
        ("tag", {"text": "a", "dictionary": {"word": "工作"}}, 422, "dictionary"),
        ("tag", {"text": "a", "dictionary": "词"}, 422, "dictionary"),
        ("tag", {"text": "a", "dictionary": ["一\t二"]}, 422, "dictionary"),
        ("tag", {"text": "a", "dictionary": ["词" * 513]}, 413, "dictionary"),
        ("tag", {"text": "a", "dictionary": ["词"] * 6}, 413, "dictionary"),
        ("tag", {"text": "a", "exclude": ["词"] * 6}, 413, "exclude"),
        ("tag", {"text": "字" * 2001}, 413, "text"),
        ("tag", {"texts": ["字"] * 51}, 413, "texts"),
        ("explain", {"text": "字" * 41}, 413, "text"),
        ("explain", {"text": "a", "svg": True, "layer": 9}, 422, "layer"),
        ("explain", {"text": "a", "width": 1}, 422, "width"),
        ("explain", {"text": "a", "view": "all"}, 422, "view"),
        ("explain", {"text": "a", "view": "changes"}, 422, "view"),
        ("analyse", {"text": "a", "segmenter": "lattice"}, 422, "segmenter"),
        ("analyse", {"text": "a", "segmenter": "nothing"}, 404, "segmenter"),
        ("analyse", {"text": "a", "segmenter": 1}, 422, "segmenter"),
        ("analyse", {"text": "a", "model": "seg"}, 422, "model"),
        ("analyse", {"text": "a", "whole_names": 1}, 422, "whole_names"),
        ("analyse", {"text": "a", "readings": 1}, 422, "readings"),
        ("tag", b" " * 20001, 413, None),
    ],
)
def test_what_is_wrong_is_said(server, path, body, status, field):
    given = {"body": body} if isinstance(body, bytes) else {"record": body}
    got, answer, _ = server.ask(f"/v1/{path}", **given)
    error = answer["error"]
    assert (got, error["status"], error.get("field")) == (status, status, field)
    assert error["message"]


def test_other_addresses_and_methods(server):
    assert server.ask("/nothing")[0] == 404
    status, answer, headers = server.ask("/v1/tag")
    assert (status, answer["error"]["status"], headers["allow"]) == (405, 405, "POST")
    assert server.ask("/health")[:2] == (200, {"status": "ok"})
    assert server.ask("/health", **{"X-Long": "x" * 20000})[0] == 431
    names = [each["name"] for each in server.ask("/v1/models")[1]["models"]]
    assert names == ["lattice", "seg"]


def test_metrics_count_requests_of_known_paths(server):
    server.ask("/v1/tag", {"text": "一"})
    server.ask("/not/known")
    text = server.ask("/metrics")[1]
    assert 'hanlattice_requests_total{path="/v1/tag",status="200"}' in text
    assert 'path="other",status="404"' in text
    assert "/not/known" not in text


def test_pages_elsewhere_may_use_it_only_if_asked(server):
    assert (
        server.ask("/v1/models", Origin="http://page.test")[2]["access-control-allow-origin"]
        == "http://page.test"
    )
    assert (
        "access-control-allow-origin" not in server.ask("/v1/models", Origin="http://other.test")[2]
    )


def stream(server: Server, lines: bytes) -> list[Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.request("POST", "/v1/stream", lines)
    with connection.getresponse() as response:
        found = [json.loads(line) for line in response.read().splitlines()]
    connection.close()
    return found


def test_a_stream_keeps_the_order(server, library):
    lines = [json.dumps(text) for text in TEXTS * 20]
    lines[5:5] = ["", '{"text": "南京市", "model": "seg"}', "wrong", '{"text": 3}']
    found = stream(server, "\n".join(lines).encode())
    want = [as_record(each) for each in library(TEXTS)]
    assert found[:5] == want[:5]
    assert found[5]["words"]
    assert [each["error"]["status"] for each in found[6:8]] == [400, 422]
    assert found[8:] == (want * 20)[5:]
    assert stream(server, b"") == []


def test_a_line_is_answered_before_the_next_is_sent(server):
    with server.socket() as sock:
        sock.sendall(b"POST /v1/stream HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(3):
            sock.sendall('9\r\n"一二"\n\r\n'.encode())
            got = b""
            while b'"spans"' not in got:
                got += sock.recv(65536)


def push(sock: socket.socket, data: bytes) -> None:
    """Send it again and again; an OSError is expected before 200 MB."""
    for _ in range(200_000_000 // len(data)):
        sock.sendall(data)


def test_a_stream_that_is_not_read_from_is_not_read(impatient):
    """Back-pressure: after a bounded number of bytes nothing more can be sent; and others are
    answered.
    """
    line = json.dumps({"text": "王小明在青石镇工作。" * 20, "candidates": 100}).encode() + b"\n"
    with impatient.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(b"POST /v1/stream HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        sock.settimeout(1)
        with pytest.raises(OSError, match=r"timed out|reset|Broken pipe"):
            push(sock, b"%x\r\n" % (len(line) * 50) + line * 50 + b"\r\n")
        wait_for(lambda: impatient.ask("/v1/tag", {"text": "一二"})[0] == 200)


def test_bodies_that_do_not_come(impatient):
    with impatient.socket() as sock:
        sock.sendall(b"POST /v1/tag HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        assert b" 408 " in sock.recv(65536)
    with impatient.socket() as sock:  # half a header: closed without a word
        sock.sendall(b"POST /v1/tag HTTP/1.1\r\nHost:")
        assert sock.recv(65536) == b""
    with impatient.socket() as sock:
        assert sock.recv(65536) == b""
    with impatient.socket() as sock:  # headers without an end
        sock.sendall(b"GET / HTTP/1.1\r\n")
        with pytest.raises(OSError, match=r"reset|Broken pipe"):
            push(sock, b"X-More: " + b"x" * 1000 + b"\r\n")
    wait_for(lambda: impatient.ask("/health")[0] == 200)


def test_a_body_of_100_mb_is_refused_before_it_is_read(server):
    with server.socket() as sock:
        sock.sendall(b"POST /v1/tag HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
        assert b" 413 " in sock.recv(65536)
    with server.socket() as sock:  # one that does not say how long it is
        sock.sendall(b"POST /v1/tag HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        sock.sendall(b"8000\r\n" + b" " * 0x8000 + b"\r\n")
        assert b" 413 " in sock.recv(65536)


def test_many_idle_connections_do_no_harm(server):
    socks = [server.socket() for _ in range(500)]
    try:
        assert server.ask("/v1/tag", {"text": TEXTS[0]})[0] == 200
    finally:
        for sock in socks:
            sock.close()


def test_the_client_is_like_a_loaded_model(server, library):
    client = connect(server.url)
    assert repr(client) == f"<Client: lattice at {server.url}>"
    assert client(TEXTS[0]) == library(TEXTS[0])
    assert client(TEXTS) == library(TEXTS)
    assert list(client.pipe(iter(TEXTS), 5, candidates=2)) == list(
        library.pipe(TEXTS, candidates=2)
    )
    assert client.candidates(TEXTS[0], 3) == library.candidates(TEXTS[0], 3)
    assert [each.spans for each in client.readings(TEXTS[0], 3)] == [
        each.spans for each in library.readings(TEXTS[0], 3)
    ]
    assert client.explain(TEXTS[0], True).to_dict() == library.explain(TEXTS[0], True).to_dict()
    assert client.explain(TEXTS[0]).to_dict() == library.explain(TEXTS[0]).to_dict()
    assert client.explain(TEXTS[0], False).to_dict() == library.explain(TEXTS[0], False).to_dict()
    assert client.explain("").to_dict() == library.explain("").to_dict()
    client.lexicon.add("王小明在")
    client.lexicon.remove("工作")
    with library.lexicon.temporary_words(["王小明在"], ["工作"]):
        assert client(TEXTS) == library(TEXTS)
    words = connect(server.url, "seg")
    assert "".join(span.text for span in words("南京市长江大桥").spans) == "南京市长江大桥"
    with pytest.raises(
        ServerError, match="404: there is no model 'nothing': expected lattice, seg"
    ):
        connect(server.url, "nothing")
    with pytest.raises(ServerError, match=r"413: .* the limit is 2,000"):
        client("字" * 3000)
    with pytest.raises(ServerError, match="no answer"):
        connect("http://127.0.0.1:9", retries=1)
    with pytest.raises(ValueError, match="expected the address of a server"):
        connect("ftp://host")


CLIENT: dict[str, Callable[[Client, Any], object]] = {
    "trust": lambda client, value: (setattr(client, "trust", value), client("好")),
    "min_score": lambda client, value: client("好", min_score=value),
    "pipe(batch_size)": lambda client, value: list(client.pipe(["好"], value)),
    "pipe(min_score)": lambda client, value: list(client.pipe(["好"], min_score=value)),
    "pipe(candidates)": lambda client, value: list(client.pipe(["好"], candidates=value)),
    "candidates(n)": lambda client, value: client.candidates("好", value),
    "candidates(min_score)": lambda client, value: client.candidates("好", 1, value),
    "readings(n)": lambda client, value: client.readings("好", value),
    "analyse(min_score)": lambda client, value: client.analyse("好", min_score=value),
    "analyse_pipe(batch_size)": lambda client, value: list(client.analyse_pipe(["好"], value)),
    "lexicon.add(trust)": lambda client, value: client.lexicon.add("南湖", "LOC", value),
    "connect(timeout)": lambda client, value: connect(client.url, timeout=value),
    "connect(retries)": lambda client, value: connect(client.url, retries=value),
}


@pytest.mark.parametrize("wrong", [*HOSTILE.values(), -1], ids=[*HOSTILE.keys(), "-1"])
@pytest.mark.parametrize("name", CLIENT)
def test_no_number_of_the_client_takes_it(server: Server, name: str, wrong: object) -> None:
    if name == "lexicon.add(trust)" and isinstance(wrong, int) and wrong == -1:
        return
    client = connect(server.url)
    with pytest.raises((TypeError, ValueError)) as caught:
        CLIENT[name](client, wrong)
    assert "must be" in str(caught.value)
    client.close()


def test_an_answer_that_is_none(tmp_path):
    """A proxy's page, say."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(bodies.pop(0))

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Page) as page, ThreadPoolExecutor(1) as pool:
        bodies = [
            b"<html>",
            b"",
            b"[]",
            b"{}",
            b'{"models": 3}',
            b'{"models": []}',
            b"\xff",
            b"[" * 10**5,
        ]
        for _ in range(len(bodies)):
            pool.submit(page.handle_request)
            with pytest.raises(ServerError, match="the answer is not one of hanlattice serve"):
                connect(f"http://127.0.0.1:{page.server_port}", retries=0)


def test_words_and_entities_together(server, library):
    """What the library's `analyse` finds, also in a text of several pieces and with words of one's
    own.
    """
    cutter = load("seg")
    client = connect(server.url)
    long = "王小明在青石镇工作，天气很好。" * 60
    own = [Entry("工作", "职业"), "天气很好"]
    for whole in (False, True):
        for text in (TEXTS[0], long, ""):
            want = library.analyse(text, segmenter=cutter, whole_names=whole)
            found = client.analyse(text, whole_names=whole)
            assert (found, found.words) == (want, want.words)
            assert found.to_dict() == want.to_dict()  # scores, as they are written
    client.lexicon.update(own)
    with library.lexicon.temporary_words(own), cutter.lexicon.temporary_words(own):
        want = list(library.analyse_pipe(TEXTS, segmenter=cutter, min_score=0.5))
    found = list(client.analyse_pipe(iter(TEXTS), 5, "seg", min_score=0.5))
    assert (found, [each.words for each in found]) == (want, [each.words for each in want])
    status, record, _ = server.ask("/v1/analyse", {"text": TEXTS[0], "scores": False})
    assert (status, record) == (
        200,
        next(library.analyse_pipe([TEXTS[0]], segmenter=cutter, scores=False)).to_dict(),
    )
    with pytest.raises(ServerError, match="seg is not a model that finds entities"):
        connect(server.url, "seg").analyse("一")


def test_pictures_of_both_views(server, library):
    from hanlattice.explain.svg import WIDTH, picture

    explanation = library.explain(TEXTS[0])
    for view, want in (
        ({}, None),
        ({"view": "shares"}, "shares"),
        ({"view": "changes"}, "changes"),
    ):
        ask = {"text": TEXTS[0], "without": True, "svg": True, "legend": False, **view}
        drawn = picture(explanation, 1, WIDTH, with_style=False, view=want, legend=False)
        assert server.ask("/v1/explain", ask)[1]["svg"] == drawn
    assert (
        "numbers and thickness"
        in server.ask("/v1/explain", {"text": TEXTS[0], "without": True, "svg": True})[1]["svg"]
    )


def test_openapi_is_what_the_server_does(server):
    """By schemathesis: random requests, valid and not, and no answer that the description does not
    allow.
    """
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    hypothesis = pytest.importorskip("hypothesis")
    own = pytest.importorskip("schemathesis.specs.openapi.checks")
    checks = (
        own.status_code_conformance,
        own.content_type_conformance,
        own.response_schema_conformance,
    )
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json").exclude(path="/v1/stream")

    @hypothesis.settings(
        max_examples=25, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(
        case=hypothesis.strategies.one_of(
            *(each.ok().as_strategy() for each in schema.get_all_operations())
        )
    )
    def check(case: Any) -> None:
        response = case.call()
        assert response.status_code < 500
        case.validate_response(response, checks=checks)

    check()


def test_wrong_options_are_refused(tmp_path):
    hanlattice("serve", "--queue", "0").refused("--queue must be 1 or more")
    hanlattice("serve", "-m", tmp_path / "no").refused("no")
    hanlattice("serve", "-m", "ner", "-m", "ner").refused("same name")
    (tmp_path / "token").write_text("\n")
    hanlattice("serve", "--token-file", tmp_path / "token").refused(
        "the first line must be the token"
    )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        hanlattice("serve", "-m", "ner", "--port", str(taken.getsockname()[1])).refused(
            "cannot listen on 127.0.0.1"
        )


def test_every_limit_is_documented():
    text = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
    for each in fields(Limits):
        assert f"`--{each.name.replace('_', '-')}`" in text
