"""Whether a target and a drafter fit each other and this machine, before weights are downloaded or read.

Reads configuration, tokenizers and the headers of weights. Every check is made that can be: what one finds stops no
other, so that a person sees all there is to mend at once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from specdemo.catalog import DRAFTER_LABELS, SHIPPED_DRAFTERS, TARGETS, check_drafter_name, is_place, read_tree_setting
from specdemo.conversion import quiet_libraries
from specdemo.detection import LANGUAGE_MODEL, Found, detect
from specdemo.drafters import shipped_folder_of
from specdemo.errors import ModelError, SpecdemoError
from specdemo.findings import Finding, Report
from specdemo.places import Seen, is_remote, look, look_at_folder
from specdemo.preflight.facts import TargetFacts, read_target, read_tokenizer
from specdemo.preflight.fits import check_fit
from specdemo.preflight.machine import check_device, check_disk, check_memory
from specdemo.preflight.manners import check_template, check_thinking, default_thinking
from specdemo.preflight.vocabulary import check_own_vocabulary, check_shared_vocabulary
from specdemo.weights import is_fetched, target_folder


@dataclass(frozen=True, slots=True)
class _Draft:
    """What --drafter names: `spec` as typed, what stands there, what it is."""

    spec: str
    seen: Seen | None
    found: Found


def preflight(target: str, drafter: str = "none", *, thinking: bool | None = None) -> Report:
    """All findings on a pair. `thinking` is the mode it would run in, None for the chat template's own.

    Raises SettingsError where `drafter` names nothing at all.
    """
    check_drafter_name(drafter)
    quiet_libraries()
    findings: list[Finding] = []

    def attempt(check: str, work: Callable[[], object]) -> object:
        """The result, or None with a refusal noted."""
        try:
            return work()
        except SpecdemoError as error:
            findings.append(Finding("refusal", check, str(error)))
            return None

    facts, draft = attempt("target", lambda: _target(target)), attempt("drafter", lambda: _draft(drafter, target))
    assert facts is None or isinstance(facts, TargetFacts)
    assert draft is None or isinstance(draft, _Draft)
    if facts is not None:
        findings += _of_target(facts)
    if draft is not None:
        if draft.seen is not None:
            findings += _of_place(draft.seen, draft.found.title)
        if draft.found.family:
            draft, found = _told_apart(draft, facts)
            findings += found
    if facts is not None and draft is not None:
        findings += _of_pair(facts, draft, thinking)
    seen = [one for one in (facts and facts.seen, draft and draft.seen) if one is not None]
    findings += [*check_memory(facts, draft.seen if draft else None), *check_disk(seen), check_device()]
    order = {"refusal": 0, "warning": 1, "ok": 2}
    findings.sort(key=lambda finding: order[finding.grade])
    return Report(target, drafter, draft.found.family if draft else "", tuple(findings))


def check_before_download(target: str, drafter: str, thinking: bool | None = None) -> None:
    """Where weights would be downloaded, raise ModelError with all that stands in the way, in one line."""
    if not (is_remote(target) or any(is_remote(place) for place in (drafter, drafter.partition(":")[2]))):
        return
    report = preflight(target, drafter, thinking=thinking)
    if report.is_refused:
        raise ModelError(" ".join(finding.sentence for finding in report.findings if finding.grade == "refusal"))


def _target(name: str) -> TargetFacts:
    if name not in TARGETS:
        return read_target(look(name))
    if not is_fetched(TARGETS[name]):
        raise ModelError(f"{TARGETS[name].title} is not on this machine yet; run `python -m specdemo fetch` first.")
    seen = look_at_folder(target_folder(TARGETS[name]), name)
    return read_target(replace(seen, revision=f"sha256:{TARGETS[name].sha256}", licence=TARGETS[name].licence))


def _draft(spec: str, target: str) -> _Draft:
    """What the drafter is. Raises ModelError where that cannot be told, or it is another one than the spec says."""
    if is_place(spec):
        seen = look(spec)
        return _Draft(spec, seen, detect(seen.values, seen.shapes))
    name, _, setting = spec.partition(":")
    if name == "hybrid":
        return _draft(setting or "eagle3", target)
    setting = read_tree_setting(setting)[1]
    by_name = Found(name, DRAFTER_LABELS[name].partition(":")[0], "specdemo", "it is called so")
    ships = name in SHIPPED_DRAFTERS and not (name == "early-exit" and (setting.isdecimal() or target not in TARGETS))
    if not ships:
        return _Draft(spec, None, by_name)
    if not setting:
        seen = look_at_folder(shipped_folder_of(name, target), name)
        # A language model that ships is what its name says; of all others the files say it.
        found = detect(seen.values, seen.shapes)
        return _Draft(spec, seen, by_name if found.family == LANGUAGE_MODEL else found)
    seen = look(setting)
    found = detect(seen.values, seen.shapes)
    is_same = found.family == name or {found.family, name} <= {"dflash", "dspark"}
    if found.family == LANGUAGE_MODEL:
        is_same = name in ("draft-model", "universal")
        found = replace(found, family=name)
    if not is_same:
        raise ModelError(
            f"{setting} is {_a(found.title)}, for {found.because}, and not {name}; give it as --drafter {setting}."
        )
    return _Draft(spec, seen, found)


def _of_target(facts: TargetFacts) -> Iterator[Finding]:
    yield from _of_place(facts.seen, "target")
    yield from check_own_vocabulary(facts)
    yield from check_template(facts)


def _of_place(seen: Seen, what: str) -> Iterator[Finding]:
    if seen.is_remote:
        gate = "gated, and you may read it" if seen.is_gated else "open"
        licence = f"; its licence is {seen.licence}" if seen.licence else "; the Hub names no licence"
        yield Finding("ok", "access", f"{seen.name} ({what}) is on the Hub at {seen.revision[:12]}, {gate}{licence}.")
    if seen.pickles:
        known = "" if seen.headers is not None else "; their shapes are known once they are downloaded"
        yield Finding(
            "warning",
            "pickle",
            f"{seen.name} keeps its weights pickled ({', '.join(seen.pickles)}): only tensors are read of them{known}.",
        )


def _told_apart(draft: _Draft, facts: TargetFacts | None) -> tuple[_Draft, list[Finding]]:
    """A language model is a draft model of the same vocabulary, or a universal one; only two tokenizers can tell."""
    if draft.found.family not in (LANGUAGE_MODEL, "draft-model", "universal") or draft.seen is None:
        return draft, []
    if draft.found.layout == "specdemo" and draft.found.family == "draft-model":
        return draft, []
    tokenizer = read_tokenizer(draft.seen.folder)
    if tokenizer is None:
        sentence = f"{draft.seen.name} has no tokenizer that can be read, and a language model needs its own to draft."
        return draft, [Finding("refusal", "vocabulary", sentence)]
    if facts is None or facts.tokenizer is None:
        return draft, []
    family, findings = check_shared_vocabulary(facts, tokenizer, draft.seen, draft.found.family)
    return replace(draft, found=replace(draft.found, family=family)), findings


def _of_pair(facts: TargetFacts, draft: _Draft, thinking: bool | None) -> Iterator[Finding]:
    if draft.found.family == "none":
        return
    name = draft.seen.name if draft.seen else draft.spec
    if not draft.found.family:
        yield Finding(
            "refusal", "family", f"{name} is {_a(draft.found.title)} ({draft.found.because}), which is not read."
        )
        return
    if draft.seen is not None:
        said = f"{name} is {_a(draft.found.title)}: {draft.found.because}."
        yield Finding("ok", "family", said)
    if not facts.can_crop:
        yield Finding(
            "refusal",
            "rollback",
            f"{facts.seen.name} has a recurrent state without a past, so that rejected drafts cannot be taken back; it "
            "runs without a drafter.",
        )
    yield from check_fit(facts, draft.found, draft.seen, draft.spec)
    if draft.seen is not None:
        mode = default_thinking(facts) if thinking is None else thinking
        yield from check_thinking(facts, draft.seen.name, mode)


def _a(title: str) -> str:
    if title.startswith("no "):
        return title
    return f"{'an' if title[0] in 'AEIOaeio' else 'a'} {title}"
