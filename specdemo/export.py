"""Recorded races as a static site: one folder that opens from a file, or from any web server, without this program.

The site runs the page's own components with the page's own scripts and styles; `assets/site/` holds what stands around
them. A part of the page is one line of `_parts`.
"""

import html
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from specdemo.errors import SiteError
from specdemo.lessons import SHIPPED_TRACES, Course, load_course
from specdemo.ui.learn import LessonCards
from specdemo.ui.recorded import RecordedRace, races_of, read_races
from specdemo.ui.texts import race_labels
from specdemo.ui.texts_room import SITE
from specdemo.ui.theme import theme_css
from specdemo.ui.view import ASSETS, STYLES, RaceView
from specdemo.ui.wire import finished_race

_MANIFEST = "specdemo-site.json"
_VERSION = 1
_ARGUMENTS = "element, props, trigger, server, upload, watch"
_LEFT_BY_SYSTEMS = {".DS_Store", "Thumbs.db", "desktop.ini"}
_WITHOUT_A_TITLE = {"own", "live"}
"""Categories of races that a person recorded: no word for a menu."""


@dataclass(frozen=True, slots=True)
class Part:
    """A component as the site mounts it in the element `id`: its skeleton, its script, and the script's `props`."""

    id: str
    skeleton: str
    script: str
    props: Mapping[str, Any]


def export(site: Path, traces: Path = SHIPPED_TRACES) -> Path:
    """Write the site and return its index page. Raises SiteError or TraceError before anything is changed.

    It is written aside and renamed, so that a failure loses nothing of an earlier export.
    """
    site = site.resolve()
    _check_place(site)
    # A lesson's experiments are the races that ship.
    course = load_course() if traces == SHIPPED_TRACES else None
    files = _files(_races(traces) if course is None else races_of(course.races), course)
    try:
        _replace(site, files)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SiteError(f"cannot write the site to {site}: {reason}. Choose a folder that can be written.") from error
    return site / "index.html"


def _races(folder: Path) -> list[RecordedRace]:
    if not folder.is_dir():
        raise SiteError(f"the folder of traces {folder} does not exist; name one that `specdemo record` wrote to.")
    races = read_races(folder)
    if not races:
        raise SiteError(f"{folder} holds no trace, a file named *.json or *.json.gz; write one with `specdemo record`.")
    return races


def _files(races: Sequence[RecordedRace], course: Course | None) -> dict[str, str]:
    """The text of every file of the site by its path."""
    names = _file_names(races)
    parts = _parts(races, names, course)
    files = {
        "index.html": _index(parts),
        "mount.js": _asset("site/mount.js"),
        "page.js": "\n".join(map(_mounting, parts)),
        **{f"races/{name}.js": _race_script(name, race) for name, race in zip(names, races, strict=True)},
    }
    manifest = {"specdemo_site": _VERSION, "files": sorted(files)}
    return {**files, _MANIFEST: json.dumps(manifest, indent=1) + "\n"}


def _parts(races: Sequence[RecordedRace], names: Sequence[str], course: Course | None) -> list[Part]:
    """The bar, which chooses, before the components of the page."""
    lessons = [] if course is None else [_component("learn", LessonCards(course))]
    return [_bar(races, names), *lessons, _component("race-view", RaceView())]


def _component(part_id: str, component: gr.HTML) -> Part:
    props = {"value": component.value, **component.props}
    return Part(part_id, component.html_template, component.js_on_load or "", props)


def _bar(races: Sequence[RecordedRace], names: Sequence[str]) -> Part:
    choices = [
        {"name": name, "labels": _labels(race), "isListed": race.is_listed}
        for name, race in zip(names, races, strict=True)
    ]
    script = "\n".join((f"const TEXTS = {json.dumps(SITE)};", _asset("race_text.js"), _asset("site/bar.js")))
    return Part("site-bar", _asset("site/bar.html"), script, {"races": choices})


def _labels(race: RecordedRace) -> dict[str, str]:
    own = race.trace.title if race.trace.category in _WITHOUT_A_TITLE else race.label
    return {language: race_labels(language).get(race.label, own) for language in SITE}


def _file_names(races: Sequence[RecordedRace]) -> list[str]:
    """Names that need no escape in an address: of letters and digits, each its own."""
    names: list[str] = []
    for race in races:
        plain = re.sub(r"[^a-z0-9]+", "-", race.name.lower()).strip("-") or "race"
        taken = [f"{plain}-{number}" for number in range(2, len(races) + 2)]
        names.append(next(name for name in (plain, *taken) if name not in names))
    return names


def _index(parts: Sequence[Part]) -> str:
    bar, *others = parts
    styles = "\n".join(_asset(name) for name in (*STYLES, "site/site.css"))
    held = {
        "style": f"{theme_css(styles)}\n{styles}",
        "title": html.escape(SITE["en"]["site_title"]),
        "without": html.escape(" ".join(words["site_no_script"] for words in SITE.values())),
        "bar": bar.skeleton,
        "parts": "\n".join(f'<div id="{part.id}">\n{part.skeleton}</div>' for part in others),
    }
    return re.sub(r"<!--(\w+)-->", lambda mark: held[mark[1]].strip(), _asset("site/index.html"))


def _mounting(part: Part) -> str:
    return f"mountPart({json.dumps(part.id)}, {json.dumps(part.props)}, ({_ARGUMENTS}) => {{\n{part.script}\n}});\n"


def _race_script(name: str, race: RecordedRace) -> str:
    """Escaped to ASCII: a token may be half a character, which no file can hold."""
    value = {**finished_race(race.trace, "recorded"), "run": name}
    return f"takeRace({json.dumps(name)}, {json.dumps(value)});\n"


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _check_place(site: Path) -> None:
    """Refuse a place whose content is not an earlier export's own."""
    if not site.parent.is_dir():
        raise SiteError(f"the folder {site.parent} does not exist; make it or choose another SITE.")
    if site.exists() and not site.is_dir():
        raise SiteError(f"{site} is a file; name a folder that is new, empty or an earlier export.")
    if not site.is_dir():
        return
    found = {path.relative_to(site).as_posix() for path in site.rglob("*") if not path.is_dir()}
    foreign = sorted(name for name in found - _written_before(site) if Path(name).name not in _LEFT_BY_SYSTEMS)
    if foreign:
        raise SiteError(
            f"{site} holds {foreign[0]}, which no export wrote; name a folder that is new, empty or an earlier export."
        )


def _written_before(site: Path) -> set[str]:
    try:
        manifest = json.loads((site / _MANIFEST).read_text(encoding="utf-8"))
        return {_MANIFEST, *map(str, manifest["files"])} if manifest["specdemo_site"] == _VERSION else set()
    except (OSError, ValueError, TypeError, KeyError):
        return set()


def _replace(site: Path, files: Mapping[str, str]) -> None:
    fresh, before = (site.with_name(f".{site.name}.{os.getpid()}.{state}") for state in ("new", "old"))
    try:
        for name, text in files.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            (fresh / name).write_text(text, encoding="utf-8", newline="\n")
        if site.exists():
            site.rename(before)
        try:
            fresh.rename(site)
        except OSError:
            if before.exists():
                before.rename(site)
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(before, ignore_errors=True)
