"""The page: what stands in it, that nothing in it is taken for code, and, in a real browser, what a reader sees."""

import base64
import html
import json
import re
import zlib

import numpy as np
import pytest
import torch

from tests.browser import Browser, find_browser
from tupe.analysis.checkpoint import open_encoder
from tupe.analysis.curves import TrainingLog
from tupe.analysis.logits import first_layer_correlations, logit_ranks
from tupe.analysis.page import FIGURES, Table, write_page
from tupe.analysis.position import position_correlation

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'\u2028<!--"
TOKENS = torch.randint(2, 4, (2, 9), generator=torch.Generator().manual_seed(0))


def parts(path):
    """The page's JSON, and its numbers."""
    text = path.read_text(encoding="utf-8")
    data, values = (
        re.search(rf'<script type="{kind}" id="{name}">(.*?)</script>', text, re.DOTALL)[1]
        for kind, name in (("application/json", "data"), ("text/plain", "values"))
    )
    return json.loads(data), zlib.decompress(base64.b64decode(values))


def matrix(item, values):
    count = item["rows"] * item["columns"]
    steps = np.frombuffer(values, "<i2", count, item["at"]).astype(float)
    steps[steps == -32768] = np.nan
    return item["scale"] * steps.reshape(item["rows"], item["columns"])


def figure(data, name):
    return next(figure for figure in data["figures"] if figure["id"] == name)


def log(*losses):
    valid = {100 * n: {"loss": loss, "num_updates": 100 * n, "hours": 0.1 * n} for n, loss in enumerate(losses, 1)}
    return TrainingLog({100: {"loss": 9.0, "lr": 0.1, "num_updates": 100, "hours": 0.1}}, valid)


@pytest.fixture
def page(save, tmp_path):
    """Two models side by side, the second of a hostile name and without a term of its own, with all that there is."""
    encoders = [open_encoder(save("tupe_tiny")[0], "TUPE-R"), open_encoder(save("bert_a_tiny")[0], HOSTILE)]
    write_page(
        tmp_path / "page.html",
        encoders,
        length=12,
        texts=[TOKENS] * 2,
        logs={"TUPE-R": log(8.0, 6.0, 5.0), HOSTILE: log(8.5, 8.0, 6.5)},
        against=HOSTILE,
        tables=[Table(HOSTILE, HOSTILE, [["", HOSTILE], [HOSTILE, "61.0 ± 2.0"]], [HOSTILE])],
    )
    return tmp_path / "page.html", encoders


def test_numbers_are_those_of_the_models(page):
    data, values = parts(page[0])
    tupe, bert = page[1]
    panels = figure(data, "positions")["panels"]
    expected = position_correlation(tupe, 12)
    assert [item["title"] for item in panels[0]["maps"]] == expected.names
    for item, wanted in zip(panels[0]["maps"], expected.values.numpy()):
        np.testing.assert_allclose(matrix(item, values), wanted, atol=item["scale"])
        assert item["scale"] == pytest.approx(abs(wanted).max() / 32767)
    assert panels[1] == {"name": HOSTILE, "note": panels[1]["note"]}
    assert "TUPE-R, TUPE-A" in panels[1]["note"]
    assert "the first 12 positions" in panels[0]["said"]
    for panel, encoder in zip(figure(data, "correlations")["panels"], (tupe, bert)):
        for item, wanted in zip(panel["maps"], first_layer_correlations(encoder, TOKENS).values()):
            np.testing.assert_allclose(matrix(item, values), wanted.mean(0).numpy(), atol=item["scale"])
    for line, encoder in zip(figure(data, "ranks")["lines"], (tupe, bert)):
        assert line["y"] == logit_ranks(encoder, TOKENS)[0].mean(1).tolist()
    before, after = figure(data, "reset")["panels"][0]["maps"][:2]
    assert after["at"] == panels[0]["maps"][0]["at"]  # the same numbers are there once
    np.testing.assert_allclose(matrix(before, values), expected.before[0].numpy(), atol=before["scale"])
    assert "BERT-A" not in figure(data, "training")["text"]
    assert figure(data, "training")["lines"][0]["said"].endswith("end after 58% of its updates")


def test_a_name_is_text_wherever_it_stands(page):
    text = page[0].read_text(encoding="utf-8")
    assert text.count("<script") == 3
    assert "<img" not in text
    assert "alert(2)" in text
    assert html.escape(HOSTILE) in text
    assert "http" not in re.sub(r"http-equiv|http://www.w3.org/2000/svg", "", text)


def test_numbers_that_are_none(save, tmp_path):
    """As a run that diverged leaves them."""
    encoder = open_encoder(save("bert_r_tiny")[0])
    with torch.no_grad():
        encoder.sentence_encoder.position_bias.relative.weight[:, 1] = float("nan")
    write_page(tmp_path / "page.html", [encoder], texts=[TOKENS], logs={"run": log(8.0, float("nan"))})
    data, values = parts(tmp_path / "page.html")
    item = figure(data, "positions")["panels"][0]["maps"][1]
    assert np.isnan(matrix(item, values)).all()
    assert item["said"] == "not a number"
    assert figure(data, "positions")["limit"] > 0
    assert figure(data, "training")["lines"][0]["y"] == [8.0]
    assert "ranks" not in [figure["id"] for figure in data["figures"]]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.id)
@pytest.mark.parametrize(
    ("system", "fields"),
    [
        *((system, {}) for system in ("tupe_r", "tupe_a_tie_cls", "bert_ad", "shaw", "diet_rel", "diet_abs_lin")),
        ("rope", {}),
        ("tupe_a", {"absolute": "free"}),
    ],
)
def test_what_a_figure_has_is_what_it_shows(figure, system, fields, save):
    encoder = open_encoder(save(f"{system}_tiny", **fields)[0])
    if figure.has(encoder.args):
        maps = figure.maps(encoder, 9, TOKENS)
        assert len(maps.names) == len(maps.values.numpy())


# ---- in a browser ----


@pytest.fixture(scope="module")
def browser():
    command = find_browser()
    if command is None:
        pytest.skip("there is no Chromium: apt-get install chromium-headless-shell")
    started = Browser(command)
    yield started
    started.close()


def middle(browser, selector):
    box = f"document.querySelector({json.dumps(selector)})"
    browser.evaluate(f"{box}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    return browser.evaluate(f"(b => [b.left, b.top, b.width, b.height])({box}.getBoundingClientRect())")


def test_pointer_and_keyboard_say_the_right_values(page, browser):
    path, (tupe, _) = page
    browser.open(path)
    values = position_correlation(tupe, 12).values.numpy()

    def said(of="readout"):
        text = browser.evaluate(f"document.getElementById('{of}').innerText").replace("−", "-").replace(",", "")
        found = re.search(r"query (\d+)(?: \[CLS\])? key (\d+)(?: \[CLS\])?: (\S+)", text)
        return int(found[1]), int(found[2]), float(found[3])

    def right(head, row, column, found):
        assert found[:2] == (row, column)
        assert found[2] == pytest.approx(values[head, row, column], rel=1e-3, abs=1e-4)

    left, top, size, _ = middle(browser, "#positions figure:nth-child(2) canvas")
    units = 11 + 1 + 1 / 3  # [CLS] is a position wide, and a third of one apart
    for row, column in ((3, 7), (0, 0), (0, 5), (11, 0), (11, 11)):
        x, y = (0.5 if i == 0 else i + 0.5 + 1 / 3 for i in (column, row))
        browser.point(left + size * x / units, top + size * y / units)
        right(1, row, column, said())
    browser.point(5, 5)
    assert browser.evaluate("document.getElementById('readout').hidden")

    browser.evaluate("document.querySelector('#positions canvas[role=application]').focus()")
    browser.press("ArrowRight", "ArrowRight", "ArrowDown")
    right(0, 1, 1, said())
    browser.press("End", "PageDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight")
    right(1, 0, 3, said())
    browser.press("Enter")
    assert browser.evaluate("document.getElementById('large').open")
    assert browser.evaluate("document.getElementById('large-title').innerText").startswith("TUPE-R · head 2")
    browser.press("ArrowDown", "ArrowDown")
    right(1, 2, 3, said("large-value"))
    browser.press("PageDown")
    right(2, 2, 3, said("large-value"))
    browser.press("Escape")
    assert not browser.evaluate("document.getElementById('large').open")
    browser.wait("(document.activeElement.getAttribute('aria-label') || '').startsWith('head 3')")
    left, top, size, _ = middle(browser, "#positions figure canvas")
    browser.click(left + size / 2, top + size / 2)
    assert browser.evaluate("document.getElementById('large').open")
    browser.press("Escape")
    browser.wait("(document.activeElement.getAttribute('aria-label') || '').startsWith('head')")
    browser.evaluate("new Promise(done => setTimeout(done, 100))")  # it goes back there once more, on the event

    browser.evaluate("document.querySelector('#training svg').focus()")
    browser.press("ArrowRight", "ArrowRight")
    assert "updates 200: 6" in browser.evaluate("document.getElementById('readout').innerText")
    assert not browser.problems
    assert browser.requests == [path.resolve().as_uri()]


@pytest.mark.parametrize(("width", "mobile"), [(360, True), (1280, False)])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_and_is_painted(width, mobile, dark, page, browser):
    browser.problems.clear()
    browser.open(page[0], width, 800, dark, mobile)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")
    colours = browser.evaluate(
        "[...document.querySelectorAll('figure canvas')].map(c => new Set(new Uint32Array("
        "c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size)"
    )
    assert len(colours) > 10
    assert min(colours) > 3
    assert browser.evaluate("document.querySelector('.card h2').innerText").startswith("TUPE-R")
    assert not browser.problems


def test_it_prints(page, browser):
    browser.open(page[0], dark=True)
    printed = browser.pdf()
    assert printed.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) > 1
    assert browser.evaluate("document.documentElement.dataset.theme") == "dark"  # as before
