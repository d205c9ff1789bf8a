"""Drafters by name: one file a family, one dict from name to how it is made."""

from collections.abc import Callable
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from specdemo import four_bit
from specdemo.catalog import (
    EMBEDDED_TARGET,
    SHIPPED_DRAFTERS,
    check_drafter_name,
    is_place,
    read_tree_setting,
)
from specdemo.causal_lm import require_branches
from specdemo.detection import LANGUAGE_MODEL, detect
from specdemo.drafters.autoregressive import AutoregressiveDrafter
from specdemo.drafters.base import Drafter
from specdemo.drafters.block_formats import load_block
from specdemo.drafters.draft_model import count_shared_ids, load_draft_model, load_pretrained
from specdemo.drafters.eagle3 import load_eagle3
from specdemo.drafters.early_exit import EarlyExitDrafter, load_early_exit
from specdemo.drafters.feature_chain import FeatureChainDrafter
from specdemo.drafters.gemma_assistant import is_gemma_assistant, load_gemma_assistant
from specdemo.drafters.hybrid import HybridDrafter
from specdemo.drafters.medusa import MedusaDrafter, load_medusa
from specdemo.drafters.mtp import load_mtp
from specdemo.drafters.ngram import NgramDrafter
from specdemo.drafters.ngram_hashed import HashedSuccessors
from specdemo.drafters.ngram_map import CountedSuccessors
from specdemo.drafters.ngram_table import FILE_NAME, NgramTable, TextThenTable
from specdemo.drafters.ngram_walk import WalkDrafter
from specdemo.drafters.null import NullDrafter
from specdemo.drafters.universal import load_universal
from specdemo.errors import ModelError, SettingsError
from specdemo.places import drafter_folder, look_at_folder
from specdemo.target import Target

_ASSETS = Path(__file__).parents[2] / "assets" / "drafters"


def make_drafter(spec: str, target: Target) -> Drafter:
    """Make the drafter that `spec` names.

    NAME or NAME:SETTING, such as `ngram:1-4`, `early-exit:12`, `draft-model:FOLDER`, `hybrid:quantized`; or a folder or
    a repository of the Hub alone, of which its files say what it is. A repository is downloaded where it is not here.
    """
    check_drafter_name(spec)
    name, _, setting = spec.partition(":")
    if name == "hybrid":
        return _hybrid(setting, target)
    folder = drafter_folder(spec, _quietly)
    if folder is None:
        return _FAMILIES[name](setting, target)
    if is_place(spec):
        return _FAMILIES[family_of(folder, spec, target)](str(folder), target)
    is_tree, _ = read_tree_setting(setting)
    return _FAMILIES[name](f"tree:{folder}" if is_tree else str(folder), target)


def family_of(folder: Path, name: str, target: Target) -> str:
    """What drafts from a folder beside this target. Raises ModelError where nothing does."""
    seen = look_at_folder(folder, name)
    found = detect(seen.values, seen.shapes)
    if found.family == LANGUAGE_MODEL:
        return language_model_family(load_pretrained(AutoTokenizer, str(folder)), target)
    if found.family not in _FAMILIES:
        raise ModelError(f"{name} is {found.title or 'unknown'}, for {found.because}; no drafter here reads that.")
    return found.family


def language_model_family(tokenizer: PreTrainedTokenizerBase, target: Target) -> str:
    """A draft model where both tokenizers mean the same by the same ids, else one that drafts text by text."""
    try:
        count_shared_ids(target.tokenizer, tokenizer, "it")
    except ModelError:
        return "universal"
    return "draft-model"


def _quietly(message: str, share: float | None) -> None:
    """Progress is shown by who downloads beforehand; see places.drafter_folder."""


def shipped_folder(name: str, target: Target) -> Path:
    """Where the trained drafter of a family is that comes with the program; ModelError where there is none."""
    return shipped_folder_of(name, target.name)


def shipped_folder_of(name: str, target_name: str) -> Path:
    """The same for a target of that name."""
    if target_name != EMBEDDED_TARGET or name not in SHIPPED_DRAFTERS:
        remedy = "choose another drafter" if name.startswith("ngram:") else f"name one: {name}:FOLDER"
        raise ModelError(f"no {name} drafter ships for the target {target_name}; {remedy}.")
    return _ASSETS / SHIPPED_DRAFTERS[name]


def _none(setting: str, target: Target) -> Drafter:
    return NullDrafter()


def _ngram(setting: str, target: Target) -> Drafter:
    if not setting:
        return NgramDrafter()
    if setting in ("static", "code"):
        table = NgramTable.load(shipped_folder(f"ngram:{setting}", target) / FILE_NAME)
        return WalkDrafter(lambda: TextThenTable(table), table.memory_bytes)
    if setting == "hashed":
        return WalkDrafter(HashedSuccessors)
    if setting == "map":
        return WalkDrafter(CountedSuccessors)
    low, _, high = setting.partition("-")
    if not (low.isdecimal() and high.isdecimal()):
        raise SettingsError(
            f"the n-gram setting is {setting!r}; it must be MIN-MAX, for example ngram:2-5, or static, code, hashed or "
            "map."
        )
    return NgramDrafter(int(low), int(high))


def _quantized(setting: str, target: Target) -> Drafter:
    if target.gguf_path is not None and target.lm.device.type == "cpu":
        lm = four_bit.from_gguf(target.gguf_path, target.model, target.lm)
    else:
        lm = four_bit.from_weights(target.model, target.lm)
    drafter = AutoregressiveDrafter("quantized", lm, lm.memory_bytes)
    drafter.reads_target_cache = True
    return drafter


def _draft_model(setting: str, target: Target) -> Drafter:
    return load_draft_model(setting or str(shipped_folder("draft-model", target)), target)


def _eagle3(setting: str, target: Target) -> Drafter:
    return _branching("eagle3", load_eagle3, setting, target)


def _mtp(setting: str, target: Target) -> Drafter:
    if setting and is_gemma_assistant(Path(setting)):
        return load_gemma_assistant(Path(setting), target)
    return _branching("mtp", load_mtp, setting, target)


def _dspark(setting: str, target: Target) -> Drafter:
    return load_block(Path(setting) if setting else shipped_folder("dspark", target), target)


def _dflash(setting: str, target: Target) -> Drafter:
    return load_block(Path(setting) if setting else shipped_folder("dflash", target), target)


def _medusa(setting: str, target: Target) -> Drafter:
    return _branching("medusa", load_medusa, setting, target)


def _branching(
    name: str,
    load: Callable[[Path, Target], FeatureChainDrafter | MedusaDrafter],
    setting: str,
    target: Target,
) -> Drafter:
    """FOLDER or nothing for chains, tree or tree:FOLDER for trees."""
    is_tree, folder = read_tree_setting(setting)
    if is_tree:
        require_branches(target.lm, target.name)
    drafter = load(Path(folder) if folder else shipped_folder(name, target), target)
    drafter.is_tree = is_tree
    return drafter


def _universal(setting: str, target: Target) -> Drafter:
    return load_universal(setting or str(shipped_folder("universal", target)), target)


def _early_exit(setting: str, target: Target) -> Drafter:
    """A number is an exit without training, through the target's own norm and head; so is every other target's."""
    if setting.isdecimal():
        return EarlyExitDrafter(target.lm, int(setting))
    if setting:
        return load_early_exit(Path(setting), target)
    is_shipped = target.name == EMBEDDED_TARGET
    return load_early_exit(shipped_folder("early-exit", target), target) if is_shipped else EarlyExitDrafter(target.lm)


def _hybrid(setting: str, target: Target) -> Drafter:
    return HybridDrafter(make_drafter(setting or "eagle3", target))


_FAMILIES: dict[str, Callable[[str, Target], Drafter]] = {
    "none": _none,
    "ngram": _ngram,
    "quantized": _quantized,
    "eagle3": _eagle3,
    "mtp": _mtp,
    "dspark": _dspark,
    "dflash": _dflash,
    "medusa": _medusa,
    "draft-model": _draft_model,
    "universal": _universal,
    "early-exit": _early_exit,
}
