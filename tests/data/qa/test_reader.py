"""SQuAD's JSON as it is published, and what is refused."""

import json
import lzma

from tests.data.qa.conftest import squad
from tupe.data.qa.reader import Answer, read


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
