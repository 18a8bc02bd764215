"""SQuAD's JSON as it is published, and what is refused."""

import json
import lzma

import pytest

from tests.data.qa.conftest import squad, write_json
from tupe.data.qa.reader import Answer, read
from tupe.errors import UserError


def test_texts_are_as_they_stand(tmp_path):
    context = "  A\r\nline\tand \u2028 more 😀."
    content = squad((context, [("a", "  what?", "line"), ("b", "", "")]))
    for path in (tmp_path / "plain.json", tmp_path / "escaped.json", tmp_path / "packed.json.xz"):
        text = json.dumps(content, ensure_ascii=path.stem == "escaped").encode()
        path.write_bytes(lzma.compress(text) if path.suffix == ".xz" else text)
        (paragraph,) = read(path)
        assert paragraph.context == context
        first, second = paragraph.questions
        assert (first.text, first.answers) == ("  what?", (Answer("line", context.find("line")),))
        assert (second.text, second.answers) == ("", ())  # as XTREME keeps answers back


def broken(change):
    content = squad(("The house", [("a", "?", "house")]))
    change(content["data"][0]["paragraphs"][0])
    return content


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], 'an object whose "data" is a list'),
        ({"data": []}, "has no questions"),
        ({"data": [{"title": "t"}]}, "article 1 in it has no 'paragraphs'"),
        (broken(lambda p: p.pop("context")), "article 1 in it has no 'context'"),
        (broken(lambda p: p.update(context=3)), "article 1 .* of another type"),
        (broken(lambda p: p["qas"][0]["answers"][0].update(answer_start="x")), "article 1 .* of another type"),
        (broken(lambda p: p["qas"][0]["answers"][0].update(answer_start=float("inf"))), "article 1 .* of another type"),
        (broken(lambda p: p["qas"][0].update(answers=[{"text": "x"}])), "article 1 in it has no 'answer_start'"),
        (broken(lambda p: p["qas"][0].update(is_impossible=True)), r"is_impossible, id a\), as SQuAD v2"),
        (broken(lambda p: p["qas"].append(p["qas"][0])), r"1 id\(s\) more than once, such as 'a'"),
    ],
)
def test_what_is_not_squad_is_refused(content, said, tmp_path):
    with pytest.raises(UserError, match=said):
        read(write_json(tmp_path / "x.json", content))


def test_cut_files_are_refused(tmp_path):
    text = json.dumps(squad(("The house", [("a", "?", "house")]))).encode()
    for name, content in (("cut.json", text[:-9]), ("cut.json.xz", lzma.compress(text)[:-9]), ("no.json", b"\xff\xfe")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match="is no JSON, or was cut"):
            read(tmp_path / name)
