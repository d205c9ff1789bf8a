"""Which drafters a page offers for its target: those that fit, and of models only those that its operator has here."""

import logging
from collections.abc import Sequence
from contextlib import suppress

from specdemo.catalog import DRAFTER_LABELS, is_for
from specdemo.errors import ModelError, SpecdemoError
from specdemo.hub import cached_folder, weight_files
from specdemo.llama import LlamaLM
from specdemo.pairs import load_pairs
from specdemo.preflight import preflight
from specdemo.race import DrafterInfo
from specdemo.target import Target

_LOG = logging.getLogger(__name__)


def offers(target: Target, named: Sequence[str]) -> tuple[DrafterInfo, ...]:
    """The menu: families without files, drafters that the operator `named`, and listed ones that are downloaded."""
    found = [DrafterInfo(name, DRAFTER_LABELS[name]) for name in DRAFTER_LABELS if _fits(target, name)]
    for spec in dict.fromkeys((*named, *_downloaded(target.name))):
        with suppress(SpecdemoError):
            report = preflight(target.name, spec)
            if not report.is_refused:
                label = DRAFTER_LABELS[report.family].partition(":")[0]
                found.append(DrafterInfo(spec, f"{_short(spec)}: {label}"))
                continue
            why = "; ".join(finding.sentence for finding in report.findings if finding.grade == "refusal")
            _LOG.warning("%s is not offered: %s", spec, why)
    return tuple(found)


def _fits(target: Target, name: str) -> bool:
    return is_for(name, target.name) and (name != "early-exit" or isinstance(target.lm, LlamaLM))


def _downloaded(target: str) -> list[str]:
    """Drafters that are listed for the target and need no network."""
    names = []
    for entry in load_pairs().drafters_of(target):
        with suppress(ModelError):
            folder = cached_folder(entry.repository, entry.revision)
            if weight_files(path.name for path in folder.iterdir()):
                names.append(entry.repository)
    return names


def _short(spec: str) -> str:
    """A colon would end the short name in a menu."""
    return spec.rstrip("/\\").replace("\\", "/").rpartition("/")[2].replace(":", " ")
