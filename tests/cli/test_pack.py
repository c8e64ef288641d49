"""`hanlattice pack` and `hanlattice distil`, from the command line."""

from __future__ import annotations

import json

from hanlattice import checkpoint as shipped
from hanlattice.training.pack import OF_ANOTHER
from tests.helpers.command import hanlattice
from tests.helpers.made import made_tree, sentences, write_toml

TEXT = "王小明在青石镇工作。"


def test_a_packed_model_tags_and_says_what_it_is(lattice_folder, made, tmp_path):
    out = tmp_path / "out"
    outcome = hanlattice(
        "pack", lattice_folder, "-o", out, "--words", "20", "--test", made / "test.bmes"
    )
    assert (outcome.code, outcome.err) == (0, "")
    first, second = outcome.text.splitlines()
    size = sum(file.stat().st_size for file in out.iterdir())
    assert first == f"{out}: {size / 1e6:.2f} MB, 20 words"
    info = json.loads(hanlattice("info", "--json", out).text)
    assert second == f"test F1 {100 * info['scores']['test']['overall']['f1']:.2f}"
    assert info["data"]["packed"] == {"precision": "small"}
    assert info["words"] == 20
    shown = hanlattice("info", out)
    assert (shown.code, shown.err) == (0, "")
    assert "30 sentences" in shown.text
    tagged = [
        hanlattice("tag", "-m", folder, "-f", "inline", TEXT) for folder in (out, lattice_folder)
    ]
    assert tagged[0] == tagged[1]
    assert "[青石镇/LOC]" in tagged[0].text


def test_without_a_test_no_score_is_told(lattice_folder, char_folder, tmp_path):
    for folder, more in ((lattice_folder, " words"), (char_folder, " MB")):
        outcome = hanlattice("pack", folder, "-o", tmp_path / folder.name, "--precision", "half")
        assert outcome.text.splitlines()[0].endswith(more)
        assert len(outcome.text.splitlines()) == 1


def test_a_packed_model_may_be_packed_again_and_its_card_says_what_is_true(
    lattice_folder, made, tmp_path
):
    (tmp_path / "about.md").write_text("## Limits\n\nNews.\n", "utf-8")
    (tmp_path / "empty.md").write_text("", "utf-8")
    first = ("--test", made / "test.bmes", "--about", tmp_path / "about.md")
    steps = (("once", lattice_folder, first), ("again", tmp_path / "once", ()))
    for name, folder, more in (
        *steps,
        ("silent", tmp_path / "again", ("--about", tmp_path / "empty.md")),
    ):
        outcome = hanlattice("pack", folder, "-o", tmp_path / name, "--precision", "half", *more)
        assert (outcome.code, outcome.err, "test F1" in outcome.text) == (0, "", name == "once")
    once, again, silent = (
        (tmp_path / n / "README.md").read_text("utf-8") for n in ("once", "again", "silent")
    )
    assert once.endswith("|\n\n## Limits\n\nNews.\n")
    assert again.endswith(f"|\n\n{OF_ANOTHER}\n\n## Limits\n\nNews.\n")
    assert "News." not in silent
    assert ("| test | precision" in once, "| test | precision" in again) == (True, False)
    shown = hanlattice("info", tmp_path / "again")
    assert (shown.code, shown.text.count("before packing"), "dev before packing" in shown.text) == (
        0,
        1,
        True,
    )
    facts = json.loads(hanlattice("info", "--json", tmp_path / "again").text)
    assert ("test" in facts["data"], "test" in facts["scores"]) == (False, False)


def test_a_name_is_the_model_that_comes_along(lattice_folder, tmp_path, monkeypatch):
    (tmp_path / "ner").symlink_to(lattice_folder)
    monkeypatch.setattr(shipped, "_FOLDER", tmp_path)
    outcome = hanlattice("pack", "ner", "-o", tmp_path / "out", "--words", "1")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.text.endswith(" MB, 1 word\n")


def test_what_is_wrong_with_packing_is_one_line(lattice_folder, char_folder, tmp_path):
    out = tmp_path / "out"
    hanlattice("pack", char_folder, "-o", out, "--words", "5").refused("this model has no lexicon")
    hanlattice("pack", tmp_path / "no", "-o", out).refused("no such model folder")
    hanlattice("pack", lattice_folder, "-o", out, "--test", tmp_path / "no.bmes").refused(
        "no.bmes", "no such file"
    )
    hanlattice("pack", lattice_folder, "-o", lattice_folder).refused(
        "is there already: choose a new or empty folder"
    )
    assert hanlattice("pack", lattice_folder, "-o", out, "--words", "-1").code == 2
    assert hanlattice("pack", lattice_folder, "-o", out, "--precision", "tiny").code == 2
    assert not out.exists()


def test_what_teachers_find_is_a_corpus_to_train_on(lattice_folder, char_folder, made, tmp_path):
    (tmp_path / "a.txt").write_text(
        "\n".join(sentence.text for sentence in sentences(30, 2)) + "\n", "utf-8"
    )
    out = tmp_path / "taught.jsonl"
    models = ("-m", lattice_folder, "-m", char_folder)
    outcome = hanlattice("distil", tmp_path / "a.txt", *models, "-o", out, "--characters", "100")
    assert (outcome.code, outcome.out) == (0, b"")
    records = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    characters, spans = (sum(len(record[key]) for record in records) for key in ("text", "spans"))
    assert 100 <= characters < 120
    soft_labels = sum(len(record.get("soft_labels", ())) for record in records)
    assert (
        f"{out}: {len(records)} sentences, {characters} characters, {spans} spans; {soft_labels} "
        in outcome.err
    )
    assert hanlattice("evaluate", lattice_folder, out).code == 0
    config = write_toml(
        tmp_path / "student.toml", made_tree(made, data__more=str(out), train__epochs=1)
    )
    assert hanlattice("train", config, "-o", tmp_path / "student").code == 0


def test_what_is_wrong_with_teachers_is_one_line(lattice_folder, char_folder, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT, "utf-8")
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xfa")
    out = tmp_path / "out.jsonl"
    two = ("-m", lattice_folder, "-m", char_folder)
    hanlattice("distil", tmp_path / "b.txt", *two, "-o", out).refused("b.txt", "no such file")
    hanlattice("distil", tmp_path / "bad.txt", *two, "-o", out).refused("bad.txt:1")
    apart = ("--apart", tmp_path / "no.bmes")
    hanlattice("distil", tmp_path / "a.txt", *two, "-o", out, *apart).refused(
        "no.bmes", "no such file"
    )
    hanlattice("distil", tmp_path / "a.txt", *two, "-o", out, "--device", "gpu").refused(
        "no device is called 'gpu'"
    )
    assert not out.exists()
