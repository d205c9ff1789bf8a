"""Every sentence of the page in English and Chinese. Knows no component and no layout.

`LABELS` are Gradio's labels, translated by Gradio; `VIEW` are the texts of the race component, which translates itself;
`SENTENCES` are the notices that the server writes; `DRAFTERS` are the drafters' lines, which `catalog` has in English.
Placeholders are `{name}`. `zh` is simplified, `zh-TW` traditional Chinese.
"""

import re
from typing import Any

import gradio as gr

from specdemo.catalog import DRAFTER_LABELS, SERVER_DRAFTER
from specdemo.prompts import load_prompts
from specdemo.ui.texts_learn import LEARN_SENTENCES, LINK_LABELS
from specdemo.ui.texts_prove import PROVE_LABELS
from specdemo.ui.texts_room import ROOM_SENTENCES
from specdemo.ui.texts_server import SERVER_DRAFTER_LINES
from specdemo.ui.texts_space import SPACE_SENTENCES
from specdemo.ui.texts_traditional import DRAFTERS_TRADITIONAL, LABELS_TRADITIONAL, SENTENCES_TRADITIONAL
from specdemo.ui.texts_tune import TUNE_LABELS

LABELS: dict[str, dict[str, str]] = {
    "en": {
        "prompt": "Prompt",
        "prompt_placeholder": "Ask the model something",
        "drafter": "Drafter",
        "k": "K, drafts a round",
        "adaptive": "Adaptive K",
        "adaptive_info": "grows and shrinks K by what was accepted lately",
        "temperature": "Temperature",
        "temperature_info": "0 is greedy",
        "more": "More settings",
        "rule": "Acceptance rule",
        "rule_coupled": "coupled: same seed, same text in both lanes",
        "rule_auto": "auto: greedy at temperature 0, else rejection",
        "rule_rejection": "rejection: same distribution",
        "rule_block": "block: same distribution, judged as a block",
        "rule_typical": "typical: lossy, another distribution",
        "precision": "Precision of the target",
        "precision_auto": "as loaded: float32 on a CPU",
        "precision_bfloat16": "bfloat16: half the bytes",
        "precision_int4": "int4: four bits a weight",
        "seed": "Seed",
        "max_new_tokens": "Most new tokens",
        "top_p": "top-p (1 is off)",
        "top_k": "top-k (0 is off)",
        "min_p": "min-p (0 is off)",
        "repetition_penalty": "Repetition penalty (1 is off)",
        "stop_strings": "Stop strings, one per line",
        "system": "System prompt",
        "raw": "Raw prompt, without the chat template",
        "race": "Race",
        "stop": "Stop",
        "recorded": "Recorded races",
        "category_chat": "chat",
        "category_code": "code",
        "category_json": "JSON",
        "category_summary": "summary",
        "category_facts": "facts",
        "category_story": "story",
        "category_repeat": "repeat",
        "category_loses": "where it loses",
        **LINK_LABELS["en"],
    },
    "zh": {
        "prompt": "提示词",
        "prompt_placeholder": "向模型提个问题",
        "drafter": "草稿模型",
        "k": "K，每轮草稿数",
        "adaptive": "自适应 K",
        "adaptive_info": "按最近的接受情况增减 K",
        "temperature": "温度",
        "temperature_info": "0 为贪心解码",
        "more": "更多设置",
        "rule": "接受规则",
        "rule_coupled": "coupled：同一种子，两条赛道文本相同",
        "rule_auto": "auto：温度 0 时贪心，否则 rejection",
        "rule_rejection": "rejection：分布相同",
        "rule_block": "block：分布相同，整块判定",
        "rule_typical": "typical：有损，分布不同",
        "precision": "目标模型的精度",
        "precision_auto": "原样：CPU 上为 float32",
        "precision_bfloat16": "bfloat16：字节数减半",
        "precision_int4": "int4：每个权重 4 比特",
        "seed": "随机种子",
        "max_new_tokens": "新词元数上限",
        "top_p": "top-p（1 为关闭）",
        "top_k": "top-k（0 为关闭）",
        "min_p": "min-p（0 为关闭）",
        "repetition_penalty": "重复惩罚（1 为关闭）",
        "stop_strings": "停止字符串，每行一个",
        "system": "系统提示词",
        "raw": "原样输入，不用对话模板",
        "race": "开赛",
        "stop": "停止",
        "recorded": "录制的比赛",
        "category_chat": "聊天",
        "category_code": "代码",
        "category_json": "JSON",
        "category_summary": "摘要",
        "category_facts": "常识",
        "category_story": "故事",
        "category_repeat": "重复",
        "category_loses": "会输的题",
        **LINK_LABELS["zh"],
    },
    "zh-TW": LABELS_TRADITIONAL | LINK_LABELS["zh-TW"],
}

SENTENCES: dict[str, dict[str, str]] = {
    "en": {
        "cannot_race": "This race cannot run",
        "cannot_open": "This file cannot be opened",
        "cannot_save": "There is nothing to save",
        "no_race": "No race has been shown yet. Run one or pick a recorded one first.",
        "not_ready": "The model is not ready yet: {message} Recorded races play meanwhile.",
        "failed": "The model could not be loaded: {message} Recorded races still play.",
        "absent": "it has not been fetched.",
        "fetching": "it is being fetched{progress}.",
        "loading": "it is being loaded{progress}.",
        "blank": "The prompt is empty. Type a question, or pick an example below the prompt.",
        "too_long": "The prompt has {num_chars} characters; at most {limit} are read. Shorten it.",
        "unknown_trace": "There is no such recorded race. Pick one from the list.",
        "not_a_number": "{label} is empty; type a number.",
        "unexpected": "The race broke off: {message}",
        "noted": "{drafter}: {note}",
        **ROOM_SENTENCES["en"],
        **SPACE_SENTENCES["en"],
        **LEARN_SENTENCES["en"],
    },
    "zh": {
        "cannot_race": "无法开赛",
        "cannot_open": "无法打开这个文件",
        "cannot_save": "没有可保存的比赛",
        "no_race": "还没有显示过比赛。请先开赛，或选一场录制的比赛。",
        "not_ready": "模型还没有就绪：{message}这期间可以看录制的比赛。",
        "failed": "模型加载失败：{message} 录制的比赛仍可播放。",
        "absent": "尚未下载。",
        "fetching": "正在下载{progress}。",
        "loading": "正在加载{progress}。",
        "blank": "提示词是空的。请输入问题，或点提示词下面的例子。",
        "too_long": "提示词有 {num_chars} 个字符，最多读取 {limit} 个。请缩短。",
        "unknown_trace": "没有这场录制的比赛。请从列表里选。",
        "not_a_number": "{label} 是空的，请填一个数。",
        "unexpected": "比赛中断：{message}",
        "noted": "{drafter}：{note}",
        **ROOM_SENTENCES["zh"],
        **SPACE_SENTENCES["zh"],
        **LEARN_SENTENCES["zh"],
    },
    "zh-TW": {
        **SENTENCES_TRADITIONAL,
        **ROOM_SENTENCES["zh-TW"],
        **SPACE_SENTENCES["zh-TW"],
        **LEARN_SENTENCES["zh-TW"],
    },
}

DRAFTERS: dict[str, dict[str, str]] = {
    "zh": {
        "none": "无草稿：普通解码",
        "ngram": "n-gram：照抄同样的词后面出现过的内容",
        "ngram:static": "n-gram + 表：再查目标模型常写的接续",
        "ngram:code": "n-gram + 代码表：表里只统计代码，换个领域就不准",
        "ngram:hashed": "n-gram 哈希：放在大小固定的表里",
        "ngram:map": "n-gram 映射：接续不明确时不猜",
        "quantized": "4 比特目标模型：目标模型自己的 4 比特权重",
        "eagle3": "EAGLE-3：用一层网络读取目标模型的隐藏状态",
        "eagle3:tree": "EAGLE-3 树：同样的一层网络，一次给出几种续写",
        "mtp": "MTP：用一层网络，从目标模型最后的隐藏状态往下写",
        "dspark": "DSpark：一次前向计算起草一整块，再按前一个词元逐个调整",
        "dflash": "DFlash：一次前向计算起草一整块",
        "medusa": "Medusa：几个预测头读取目标模型最后的隐藏状态，每个猜一个词元",
        "medusa:tree": "Medusa 树：同样的预测头，每个给出几个猜测",
        "draft-model": "独立小模型：词表相同的小语言模型",
        "universal": "异词表小模型：词表是自己的，按文本对接",
        "hybrid": "混合：文本重复处用 n-gram，其余用 EAGLE-3",
        "early-exit": "提前退出：只算目标模型的前几层，再经训练过的出口",
    },
    "zh-TW": DRAFTERS_TRADITIONAL,
}
"""By the names of `catalog.DRAFTER_LABELS`, and in its form: the short name, a colon, what the drafter does."""

_COLON = re.compile("[:：]")

_TRADITIONAL = ("zh-tw", "zh-hk", "zh-mo", "zh-hant")


def language_of(request: gr.Request | None) -> str:
    """The language of a visitor's browser: `en`, `zh` or `zh-TW`."""
    header = "" if request is None else str(request.headers.get("accept-language", "")).lower()
    if header.startswith(_TRADITIONAL):
        return "zh-TW"
    return "zh" if header.startswith("zh") else "en"


def drafter_label(language: str, name: str, label: str) -> str:
    """A drafter in a language; its own label where there is no translation."""
    if name == SERVER_DRAFTER:
        return SERVER_DRAFTER_LINES.get(language, label)
    return DRAFTERS.get(language, {}).get(name, label)


def drafter_names(language: str) -> dict[str, str]:
    """The drafters' short names, for lanes and sentences."""
    return {name: short_name(line) for name, line in DRAFTERS.get(language, DRAFTER_LABELS).items()}


def short_name(line: str) -> str:
    """What stands before the colon of a drafter's line."""
    return _COLON.split(line)[0]


def sentence(language: str, key: str, **values: Any) -> str:
    """One notice, filled in."""
    return SENTENCES[language][key].format(**values)


def race_labels(language: str) -> dict[str, str]:
    """The recorded races of the example prompts in a language, by their `RecordedRace.label`."""
    labels = {}
    for example in load_prompts():
        category = LABELS[language][f"category_{example.category}"]
        labels[f"{example.category} · {example.titles['en']}"] = f"{category} · {example.titles[language]}"
    return labels


def gradio_labels() -> gr.I18n:
    """The labels for `launch(i18n=...)`, under the codes that Gradio has; `race_text.js` leads all Chinese to them."""
    codes = {"en": "en", "zh": "zh-CN", "zh-TW": "zh-TW"}
    parts = (LABELS, PROVE_LABELS, TUNE_LABELS)
    labels = {language: race_labels(language) for language in codes}
    for language, known in labels.items():
        known |= {f"drafter_{name}": short for name, short in drafter_names(language).items()}
        for part in parts:
            known |= part[language]
    return gr.I18n(**{code: labels[language] for language, code in codes.items()})
