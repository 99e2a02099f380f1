"""The parts of pages: tables with their kinds of rows and cells, sections with their menu, and what a page may show."""

from __future__ import annotations

import re

import pytest
from markupsafe import Markup
from matplotlib.figure import Figure
from pages_read import check_text

from sightword.report import html_page
from sightword.report.departures import Departure
from sightword.report.drawing import Drawing
from sightword.report.html_page import Headline, Note, Section, beside, figure, fold, made, markup, source, sparks, text
from sightword.report.tables import Cell, Row, Table, breakable, marked, quotes

COLUMNS = ("system", Cell("score", style="on-demand"), "rank")
GROUPS = [
    (marked("Flickr8k <x>"), [Row("char-GRU", ["58.2", "4"], "published", "Merkx & Frank 2019")]),
    ("", [Row("none", ["alone"], "same")]),
]


@pytest.fixture(scope="module")
def table() -> str:
    ours = Row("This <run>", [Cell("71.7", ["± 1.2", "sd 0.3"], "**", "seen"), "2"], "ours")
    return html_page.table(Table("All & some", COLUMNS, [ours], GROUPS, style="sortable across"))


def test_table_rows_of_each_kind_have_its_class_name_and_detail(table: str) -> None:
    rows = re.findall(r'<tr class="(\w+)"><th scope="row"[^>]*>(.*?)</th>', table)
    assert rows == [
        ("ours", "This &lt;run&gt;"),
        ("published", "char-GRU <small>Merkx &amp; Frank 2019</small>"),
        ("same", "none"),
    ]


def test_table_cell_has_stars_beside_and_intervals_below_the_value(table: str) -> None:
    assert '<td class="seen">71.7<sup>**</sup><small>± 1.2</small><small>sd 0.3</small></td><td>2</td>' in table


def test_table_groups_have_a_body_each_and_their_head_spans_the_columns(table: str) -> None:
    assert table.count("<tbody>") == 3
    head = '<tr class="group"><th scope="rowgroup" colspan="3">Flickr8k &lt;x&gt; <em class="mark">published</em></th>'
    assert table.count('class="group"') == table.count(head) == 1


def test_table_caption_columns_and_style_are_escaped_and_in_order(table: str) -> None:
    assert '<table class="sortable across">' in table
    assert "<caption>All &amp; some</caption>" in table
    heads = '<th scope="col">system</th><th scope="col" class="on-demand">score</th><th scope="col">rank</th>'
    assert heads in table


def test_table_across_names_the_group_of_each_row_for_sorting(table: str) -> None:
    assert re.findall('data-group="([^"]*)">', table) == ["Flickr8k &lt;x&gt; published"]
    assert "data-group" not in html_page.table(Table("", COLUMNS, groups=GROUPS, style="sortable"))


def test_names_of_rows_are_escaped() -> None:
    assert quotes("a < b", "c") == Markup('<q dir="auto">a &lt; b</q><q dir="auto">c</q>')
    assert breakable("a.<b>") == Markup("a.<wbr>&lt;b&gt;")


def test_render_sections_are_in_the_menu_without_those_that_are_none() -> None:
    sections = [
        Section("one", "The <first>", [text("{} < &amp; {}", "<b>", 3), None], menu="First"),
        None,
        Section("two", "Second", [figure(None), beside(None), source()]),
    ]
    page = html_page.render("A <page>", sections, top=text("top"), footer=html_page.made_by("report"))
    assert re.findall(r'<a href="#(\w+)">([^<]*)</a>', page) == [("top", "Top"), ("one", "First"), ("two", "Second")]
    assert '<h2 id="one">The &lt;first&gt;</h2>' in page
    assert "<p>&lt;b&gt; < &amp; 3</p>" in page
    assert "<title>A &lt;page&gt;</title>" in page
    assert "Read this first" not in page
    assert "At a glance" not in page
    check_text(page)


def test_render_notes_and_headlines_come_first() -> None:
    notes = [Note("little text", "It has <2>.", serious=True), Note("", "Alone.")]
    headlines = [Headline("71.7 %", "right", "of 9", markup("<i>{}</i>", "A & B"))]
    page = html_page.render("T", [], top=Markup(), footer=Markup(), notes=notes, headlines=headlines)
    assert "<li class=serious><strong>Little text.</strong> It has &lt;2&gt;.</li>" in page
    assert "<li>Alone.</li>" in page
    assert "<b>71.7 %</b><span>right</span><small>of 9</small><i>A &amp; B</i>" in page


@pytest.mark.parametrize("value", [None, float("nan"), [1], len])
def test_render_value_that_is_no_text_is_refused(value: object) -> None:
    for show in (
        lambda: text("{}", value),
        lambda: html_page.table(Table("", ("a", "b"), [Row("x", [Cell(value)])])),  # type: ignore[arg-type]
        lambda: fold(value, text("x")),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match="a page shows texts and numbers"):
            show()


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "No parameter differs from the published ones"), (12, "These parameters differ")],
)
def test_made_by_shows_all_parameters_that_differ(number: int, said: str) -> None:
    departed = [Departure(f"train.p{place}", None, place) for place in range(number)]
    _, _, parts, _ = made(departed, "report/index.html", "0123456789")
    shown = "".join(map(str, parts))
    assert said in shown
    assert "sightword audit --full report/index.html" in shown
    assert "model 01234567." in shown
    assert re.findall(r'row">(.*?)</th><td class="prose">null</td>', shown) == [one.name for one in departed]


def test_figure_words_of_a_drawing_are_escaped() -> None:
    drawn = Figure()
    drawn.subplots().set_title("<script>1</script>")
    shown = figure(Drawing("one", '<i>"two"', drawn), "<b>three</b>")
    assert "&lt;script&gt;" in str(shown)
    assert not re.search("<script|<i>|<b>", str(shown))


def test_sparks_are_tiles_of_drawings_with_a_curve() -> None:
    drawn = [Drawing("a", "A", Figure()), Drawing("b", "B", Figure(), ("loss & more", [4.0, 2.0, 0.5]))]
    ((value, what, beside_it, mark),) = sparks(drawn)
    assert (value, what, beside_it) == ("0.5", "loss & more", "4 at first")
    assert 'aria-label="loss &amp; more"><polyline points="0.0,1.0 50.0,12.0 100.0,20.2"/>' in mark
