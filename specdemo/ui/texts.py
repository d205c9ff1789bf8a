"""Every sentence of the page in English and Chinese. Knows no component and no layout.

`LABELS` are Gradio's labels, translated by Gradio; `VIEW` are the texts of the race component, which translates itself;
`SENTENCES` are the notices that the server writes; `DRAFTERS` name the drafters, whose own labels are English.
Placeholders are `{name}`. `zh` is simplified, `zh-TW` traditional Chinese.
"""

from typing import Any

import gradio as gr

from specdemo.ui.texts_traditional import DRAFTERS_TRADITIONAL, LABELS_TRADITIONAL, SENTENCES_TRADITIONAL

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
        "seed": "随机种子",
        "max_new_tokens": "最多新词元数",
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
        "category_repeat": "复述",
        "category_loses": "会输的题",
    },
    "zh-TW": LABELS_TRADITIONAL,
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
    },
    "zh": {
        "cannot_race": "无法开赛",
        "cannot_open": "无法打开这个文件",
        "cannot_save": "没有可保存的比赛",
        "no_race": "还没有比赛。请先开赛，或选一场录制的比赛。",
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
    },
    "zh-TW": SENTENCES_TRADITIONAL,
}

DRAFTERS: dict[str, dict[str, str]] = {
    "zh": {
        "none": "无（普通解码）",
        "ngram": "n-gram：照抄同样的词后面出现过的内容",
        "ngram:static": "n-gram，再加目标模型常写的接续",
        "ngram:hashed": "n-gram：大小固定的哈希表",
        "ngram:map": "n-gram：接续不明确时不猜",
        "quantized": "四位精度的目标模型",
        "eagle3": "EAGLE-3：读取目标模型隐藏状态的一层",
        "draft-model": "训练好的小模型",
        "hybrid": "文本重复处用 n-gram，其余用 EAGLE-3",
        "early-exit": "目标模型的前几层",
    },
    "zh-TW": DRAFTERS_TRADITIONAL,
}
"""By the names of `catalog.DRAFTER_LABELS`."""

_TRADITIONAL = ("zh-tw", "zh-hk", "zh-mo", "zh-hant")


def language_of(request: gr.Request | None) -> str:
    """The language of a visitor's browser: `en`, `zh` or `zh-TW`."""
    header = "" if request is None else str(request.headers.get("accept-language", "")).lower()
    if header.startswith(_TRADITIONAL):
        return "zh-TW"
    return "zh" if header.startswith("zh") else "en"


def drafter_label(language: str, name: str, label: str) -> str:
    """A drafter in a language; its own label where there is no translation."""
    return DRAFTERS.get(language, {}).get(name, label)


def sentence(language: str, key: str, **values: Any) -> str:
    """One notice, filled in."""
    return SENTENCES[language][key].format(**values)


def gradio_labels() -> gr.I18n:
    """The labels for `launch(i18n=...)`, under every code that a browser may be set to."""
    simplified = dict.fromkeys(("zh", "zh-CN", "zh-SG", "zh-Hans"), LABELS["zh"])
    traditional = dict.fromkeys(("zh-TW", "zh-HK", "zh-MO", "zh-Hant"), LABELS["zh-TW"])
    return gr.I18n(en=LABELS["en"], **simplified, **traditional)
