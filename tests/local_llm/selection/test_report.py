"""local_llm/selection/report.py: the HTML file is complete and safe, and what it shows is right."""

import base64
import dataclasses
import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from test_drawings import decode

from llmwrappers.priors.measurement import play
from local_llm.selection import drawings
from local_llm.selection.candidate import Candidate, Refused
from local_llm.selection.choose import RULES, Choice, choose_candidate
from local_llm.selection.code_blocks import SCRIPT, SCRIPT_SOURCE
from local_llm.selection.report import write_report
from local_llm.selection.training import Outcome, Trained, training_settings

EVIL = "</pre></details><script>alert('code')</script><img src=x onerror=alert(1)>"


def quiet(line: str) -> None:
    pass


PROBE = {"select": "probe", "episodes": 2, "held_out_episodes": 2, "log": quiet}


class Page(HTMLParser):
    """Collects tags, attributes and text, and that every element is closed in order."""

    VOID = ("meta", "img")

    def __init__(self, text: str):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def pendulum(sources: dict[int, str]) -> list[Candidate]:
    policies = {1: lambda obs: [-2.0 * obs[1] - 0.5 * obs[2]], 2: lambda obs: [2.0]}
    return [Candidate(n, source, Path(f"policy-{n}.py"), policies[n]) for n, source in sources.items()]


@pytest.fixture(scope="module")
def trained() -> tuple[list[Candidate], Choice]:
    """Two candidates that ran and a rejected one, with runs whose curves are straight."""
    candidates = pendulum({1: "# the first one\n" + EVIL, 2: "# the second one"})
    candidates.append(Candidate(3, "import os", Path("policy-3.py"), rejected=f"line 1: imports os {EVIL}"))
    candidates[0].refused = [Refused("the first reply", "import sys", f"imports sys {EVIL}"), Refused(EVIL, "", "no code")]
    candidates[2].refused = [Refused("the only reply", f"import os # {EVIL}", "imports os")]
    choice = choose_candidate("Pendulum-v1", candidates, **PROBE)
    choice.select, choice.rule, choice.settings = "return", RULES["return"], training_settings(4096, 200)
    choice.candidate, choice.verdict, choice.outcomes[1] = 1, f"Candidate 1 helps: {EVIL}", Outcome("chosen")
    for seed in range(4):
        for number in (None, 1, 2) if seed == 0 else (None, 1):
            slope = {None: 1.0, 1: 3.0, 2: 2.0}[number] + 0.1 * seed
            returns = [-1200.0, -1200 + 100 * slope, -1200 + 200 * slope]
            choice.runs.append(Trained(number, seed, "", [0, 2048, 4096], returns))
    return candidates, choice


@pytest.fixture(scope="module")
def html(trained, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("report") / "new" / "report.html"
    provenance = {"model": f"a model {EVIL}", "versions": {"numpy": np.__version__}}
    write_report(path, "Pendulum-v1", f"Write it. {EVIL}", *trained, ledger=f"5 calls {EVIL}", provenance=provenance)
    return path.read_text("utf-8")


class TestPage:
    def test_it_is_well_formed_and_loads_nothing(self, html):
        page = Page(html)
        assert not {"link", "iframe", "object", "form", "base"} & set(page.tags)
        sources = [value for name, value in page.attributes if name in ("src", "href", "srcset", "action", "data")]
        assert sources
        assert all(source.startswith("data:image/png;base64,") for source in sources)
        assert not [name for name, _ in page.attributes if name.startswith("on")]
        assert not re.findall(r"url\(|@import|https?:", html)
        assert "default-src 'none'" in html
        assert len(html) < 1_500_000

    def test_a_browser_runs_one_script_and_no_other(self, html):
        """It is the one whose hash the policy of the page names, the page's only source of scripts."""
        assert re.findall(r"<script[^>]*>(.*?)</script>", html, re.DOTALL | re.IGNORECASE) == [SCRIPT]
        (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', html)
        directives = dict(directive.strip().split(" ", 1) for directive in policy.split(";"))
        assert directives == {
            "default-src": "'none'", "img-src": "data:", "style-src": "'unsafe-inline'", "script-src": SCRIPT_SOURCE,
        }  # fmt: skip

    def test_what_a_model_wrote_is_text(self, html):
        """The verdict, the reason of a rejection (twice), of two replies' refusals a reason, a reply and a code, the code, the
        prompt, the ledger, the provenance.
        """
        assert html.count("<script") == 1
        assert Page(html).text.count(EVIL) == 10

    def test_every_reply_is_there_in_order_with_why_it_could_not_be_used(self, html):
        parts = [unescape(re.sub("<[^>]*>", "", part)) for part in re.findall("<details>.*?</details>", html, re.DOTALL)]
        first, second, third = (next(part for part in parts if part.startswith(f"Candidate {n}")) for n in (1, 2, 3))
        expected = [
            f"Reply 1 could not be used: imports sys {EVIL}", "import sys", f"Reply 2 could not be used: no code{EVIL}",
            "Reply 3 is the candidate:", "# the first one",
        ]  # fmt: skip
        places = [first.index(text) for text in expected]
        assert places == sorted(places)
        assert "Reply" not in second
        assert f"Reply 1 could not be used: imports osCopyimport os # {EVIL}" in third
        assert third.endswith(EVIL)  # and nothing is the candidate

    def test_how_to_use_the_chosen_one(self, html, trained, tmp_path):
        path = Path("policy-1.py").resolve()
        assert f"--env-id Pendulum-v1 --prior {path}" in html
        assert f"prior='{path}')" in Page(html).text
        candidates, choice = trained
        write_report(tmp_path / "report.html", "Pendulum-v1", "", candidates, dataclasses.replace(choice, candidate=None))
        assert "Use it" not in (tmp_path / "report.html").read_text("utf-8")

    def test_what_decided_is_the_first_column_and_says_so(self, html, tmp_path):
        def first(page: str) -> list[str]:
            rows = re.findall(r"<tr.*?</tr>", page)[:2]
            return [re.findall(r"<th[^>]*>(?:<span>)?(.*?)<", row)[1] for row in rows]

        assert first(html) == ["this decided", "learned"]
        candidates = pendulum({1: "", 2: ""})
        choice = choose_candidate("Pendulum-v1", candidates, **PROBE)
        write_report(tmp_path / "report.html", "Pendulum-v1", "", candidates, choice)
        assert first((tmp_path / "report.html").read_text("utf-8")) == ["this decided", "return"]
        assert "<title>Pendulum-v1: Candidate 1 helps</title>" in html

    def test_every_candidate_is_in_the_table(self, html, trained):
        rows = [re.sub(r"<[^>]+>", "|", row) for row in re.findall(r"<tr.*?</tr>", html)]
        cells = {
            name: next(row for row in rows if name in row) for name in ("Candidate 2", "Candidate 3", "Random", "No prior")
        }

        def shown(value: float) -> str:
            return f"|{value:,.0f}|".replace(",", "\xa0").replace("-", "\N{MINUS SIGN}")

        assert shown(float(np.mean(trained[1].measurements[2].returns))) in cells["Candidate 2"]
        assert "|100|" in cells["Candidate 2"]  # saturated, %
        assert "rejected: line 1: imports os" in cells["Candidate 3"]
        assert shown(-800.0) in cells["Candidate 2"]
        assert shown(-1200 + 200 * 1.15) in cells["No prior"]
        assert "forward, m" not in html  # nobody reports a position

    def test_the_curves_are_where_they_should_be(self, html):
        """Of candidate 1's panel: four thin lines an arm, and thick ones that end at the mean of their ends."""
        panel = next(svg for svg in re.findall(r"<svg viewBox.*?</svg>", html) if "Candidate 1, chosen" in svg)
        lines = re.findall(r'points="([^"]+)" [^>]*stroke="(#\w+)" stroke-width="([\d.]+)"', panel)
        ends = {(color, width): [] for color in ("#0072b2", "#555555") for width in ("0.9", "2.4")}
        for points, *style in lines:
            ends.setdefault(tuple(style), []).append(float(points.split(",")[-1]))
        for color in ("#0072b2", "#555555"):
            assert len(ends[color, "0.9"]) == 4
            assert ends[color, "2.4"] == pytest.approx([np.mean(ends[color, "0.9"])], abs=0.1)
        assert ends["#0072b2", "2.4"] < ends["#555555", "2.4"]  # higher on the page
        assert "4 runs, 4 without a prior" in panel
        assert html.count("<svg viewBox") == 2

    def test_film_strips_or_why_there_are_none(self, html, trained, tmp_path, monkeypatch):
        episodes = []
        monkeypatch.setattr(drawings, "play", lambda *episode: episodes.append(episode) or play(*episode))
        write_report(tmp_path / "report.html", "Pendulum-v1", "", *trained)
        assert len(episodes) == 2  # one of each candidate, also of the one that is shown in motion
        strips = "".join(re.findall(r'<div class="strip">.*?</figure>', html))
        assert strips.count("data:image/png;base64,") == 16
        assert "step 1</div>" in html
        assert "step 200</div>" in html
        frame = re.findall(r"data:image/png;base64,([^\"]+)", strips)[0]
        assert decode(base64.b64decode(frame)).std() > 5

        def no_renderer(*_, **__):
            raise RuntimeError(f"no display {EVIL}")

        monkeypatch.setattr(drawings, "film", no_renderer)
        write_report(tmp_path / "report.html", "Pendulum-v1", "", *trained)
        page = Page((tmp_path / "report.html").read_text("utf-8"))
        assert f"No film: Pendulum-v1 cannot be rendered here (RuntimeError: no display {EVIL})." in page.text
        assert "img" not in page.tags

    def test_the_best_one_is_shown_in_motion(self, html, trained, tmp_path, monkeypatch):
        """Where it would be too large, smaller, and then not at all; who prefers no motion does not see it."""

        def moving() -> list[str]:
            write_report(tmp_path / "report.html", "Pendulum-v1", "", *trained)
            figures = (tmp_path / "report.html").read_text("utf-8").split("<figure>")[1:]
            assert "moving" not in figures[1]
            return re.findall(r'<img class="moving"[^>]*base64,([^"]+)"', figures[0])

        def height(image: str) -> int:
            return int.from_bytes(base64.b64decode(image)[20:24], "big")

        (large,) = moving()
        assert b"acTL" in base64.b64decode(large)
        assert len(large) < 400_000
        assert "@media (prefers-reduced-motion: reduce) { .moving { display: none; } }" in html
        monkeypatch.setattr(drawings, "MOST_MOVING_BYTES", len(large) - 1)
        (small,) = moving()
        assert 50 < height(small) < height(large)
        monkeypatch.setattr(drawings, "MOST_MOVING_BYTES", 900)
        assert moving() == []
        assert "No moving picture: it would take more than 900 bytes." in (tmp_path / "report.html").read_text("utf-8")

    def test_films_that_are_too_large_are_shrunk(self, html, trained, tmp_path, monkeypatch):
        monkeypatch.setattr(drawings, "MOST_FRAME_BYTES", 8_000)
        write_report(tmp_path / "report.html", "Pendulum-v1", "", *trained)
        frames = [
            re.findall(r"<div><img [^>]*base64,([^\"]+)", page)[0]
            for page in (html, (tmp_path / "report.html").read_text("utf-8"))
        ]
        large, small = (decode(base64.b64decode(frame)).shape[0] for frame in frames)
        assert large > 150
        assert small < 100

    def test_without_anything_to_show(self, tmp_path):
        """All were rejected, on a Discrete space that cannot be rendered."""
        candidates = [Candidate(1, "", Path("policy-1.py"), rejected="no code")]
        choice = choose_candidate("llmwrappers-tests/Turns-v0", candidates, **PROBE)
        write_report(tmp_path / "report.html", "llmwrappers-tests/Turns-v0", "the prompt", candidates, choice)
        page = Page((tmp_path / "report.html").read_text("utf-8"))
        assert "No candidate could be used" in page.text
        assert "1 policy written by" in page.text
        assert "What they do" not in page.text

    def test_an_environment_without_a_renderer(self, tmp_path):
        candidates = [Candidate(1, "", Path("policy-1.py"), lambda obs: {3})]
        choice = choose_candidate("llmwrappers-tests/Turns-v0", candidates, **PROBE)
        write_report(tmp_path / "report.html", "llmwrappers-tests/Turns-v0", "the prompt", candidates, choice)
        assert "No film: llmwrappers-tests/Turns-v0 cannot be rendered here (" in (tmp_path / "report.html").read_text("utf-8")


def test_a_choice_fits_json_with_runs(trained):
    again = json.loads(json.dumps(dataclasses.asdict(trained[1])))
    assert again["runs"][1]["returns"] == [-1200.0, -900.0, -600.0]
