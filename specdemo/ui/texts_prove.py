"""The texts of the tab "Prove it": `PROVE_LABELS` are Gradio's labels, `PROVE` the component's own, which it fills."""

from specdemo.ui.texts_prove_traditional import PROVE_LABELS_TRADITIONAL, PROVE_TRADITIONAL

SOURCES: dict[str, tuple[tuple[str, str], ...]] = {
    "accept_all": (
        ("openvino.genai #2331", "https://github.com/openvinotoolkit/openvino.genai/pull/2331"),
        ("vllm-ascend #13730", "https://github.com/vllm-project/vllm-ascend/issues/13730"),
    ),
    "soft_argmax": (
        ("transformers #47932", "https://github.com/huggingface/transformers/issues/47932"),
        ("jaymody/speculative-sampling #3", "https://github.com/jaymody/speculative-sampling/issues/3"),
    ),
    "target_for_residual": (("Spec-RL #14", "https://github.com/ShopeeLLM/Spec-RL/issues/14"),),
    "one_sided_temperature": (("vLLM #10198", "https://github.com/vllm-project/vllm/pull/10198"),),
    "late_truncation": (
        ("ik_llama.cpp #1820", "https://github.com/ikawrakow/ik_llama.cpp/pull/1820"),
        ("DSpark, arXiv 2607.05147", "https://arxiv.org/abs/2607.05147"),
    ),
    "one_number": (("vllm-ascend #16370", "https://github.com/vllm-project/vllm-ascend/pull/16370"),),
}
"""Where each mistake was made, or spoken of, in public."""

PROVE_LABELS: dict[str, dict[str, str]] = {
    "en": {
        "tab_race": "Race",
        "tab_prove": "Prove it",
        "proof": "What to prove",
        "proof_greedy": "Greedy: the same text",
        "proof_sampling": "Sampling: the same distribution",
        "proof_seeds": "One seed, one text",
        "proof_mistakes": "Break it on purpose",
        "proved_context": "Prompt",
        "proved_drafter": "Drafter",
        "proved_rule": "Acceptance rule",
        "proved_temperature": "Temperature",
        "proved_draws": "Draws",
        "planted": "Mistake to plant",
        "planted_each": "each in turn",
        "planted_accept_all": "accept every draft",
        "planted_soft_argmax": "soft law for an argmax draft",
        "planted_target_for_residual": "correct from the target, not the residual",
        "planted_one_sided_temperature": "temperature on one side only",
        "planted_late_truncation": "drop drafts after they were drawn",
        "planted_one_number": "one random number used twice",
        "prove": "Prove",
        "prove_stop": "Stop",
    },
    "zh": {
        "tab_race": "比赛",
        "tab_prove": "证明给我看",
        "proof": "证明什么",
        "proof_greedy": "贪心：文本相同",
        "proof_sampling": "采样：分布相同",
        "proof_seeds": "同一种子，同一文本",
        "proof_mistakes": "故意弄坏",
        "proved_context": "提示词",
        "proved_drafter": "草稿模型",
        "proved_rule": "接受规则",
        "proved_temperature": "温度",
        "proved_draws": "抽样次数",
        "planted": "埋入哪个错误",
        "planted_each": "逐个来",
        "planted_accept_all": "每个草稿都接受",
        "planted_soft_argmax": "argmax 草稿却报 softmax 分布",
        "planted_target_for_residual": "纠正时从目标分布抽，而不是从残差抽",
        "planted_one_sided_temperature": "只有一边用温度",
        "planted_late_truncation": "抽出草稿之后再丢掉",
        "planted_one_number": "一个随机数用两次",
        "prove": "证明",
        "prove_stop": "停止",
    },
    "zh-TW": PROVE_LABELS_TRADITIONAL,
}

PROVE: dict[str, dict[str, str]] = {
    "en": {
        "prove_view": "Results of the proof",
        "what_greedy": "At temperature 0 each drafter and K must give plain decoding's own tokens. Green: in "
        "float32 every "
        "answer is the same. In bfloat16 answers may part where two logits are as close as its rounding; plain "
        "decoding "
        "parts from itself there too, when its passes are wider.",
        "what_sampling": "The target's exact law of the next two tokens is known. The rule draws them thousands of "
        "times from the "
        "models' real laws (top-k {top_k}). Green: the draws fit the law. Red: so bad a fit has a chance below "
        "{alpha}.",
        "what_seeds": "Under the coupled rule both lanes draw with the same noise. Green: with one seed every "
        "drafter, at every "
        "temperature, gives plain sampling's own tokens.",
        "what_mistakes": "The same experiment with one real mistake planted in the rule of rejection. The right "
        "rule must stay green, "
        "and each mistake must turn red.",
        "idle": "Nothing has been proved yet.",
        "idle_detail": "Choose what to prove and press Prove.",
        "waiting": "Waiting for the device",
        "waiting_detail": "It runs one race or proof at a time.",
        "running": "Running",
        "reading": "Asking both models for their laws",
        "drawing": "{n} of {all} drawn. The verdict comes after the last.",
        "writing": "{n} of {all} answers written",
        "stopped": "Stopped",
        "stopped_detail": "What is below stays. Without all draws there is no verdict.",
        "failed": "The proof did not run",
        "green_greedy": "Green: the same text",
        "green_greedy_detail": "All {n} answers in float32 are plain decoding's, token for token. In bfloat16 "
        "{ties} of {short} part, by ties.",
        "red_greedy": "Red: a text differs, and it is no tie",
        "red_answers_detail": "{n} of {all} answers differ where they must not. The rows say where.",
        "green_seeds": "Green: one seed, one text",
        "green_seeds_detail": "All {n} answers are plain sampling's, token for token.",
        "red_seeds": "Red: with the same seed a text differs",
        "green_sampling": "Green: the same distribution",
        "green_sampling_detail": "{n} draws fit the target's law: a worse fit comes by chance with p = {p}.",
        "red_sampling": "Red: another distribution",
        "red_sampling_detail": "{n} draws do not fit the target's law: p = {p}, below {alpha}.",
        "red_typical": "Red, as it must be: this rule is lossy by design.",
        "green_mistakes": "As it should be: the right rule is green, every mistake red",
        "green_mistakes_detail": "{n} draws for each. The rows say what went wrong, and where it was seen.",
        "red_mistakes": "Not as it should be",
        "red_mistakes_detail": "A mistake stayed green or the right rule turned red. At temperature 1 a "
        "temperature on one side "
        "changes nothing; elsewhere more draws may be needed.",
        "green_planted": "Green, though a mistake is planted",
        "green_planted_detail": "Here it changes too little to be seen in {n} draws.",
        "chart_token": "The next token",
        "chart_pair": "The next two tokens",
        "drawn": "drawn",
        "law": "target's law",
        "rarer": "all rarer ones",
        "not_shown": "{n} more outcomes are compared and not shown.",
        "fit": "Total variation {tv}; by chance {mean} ± {spread}. Chi-square: p = {p}.",
        "col_prompt": "Prompt",
        "col_drafter": "Drafter",
        "col_precision": "Numbers",
        "col_temperature": "T",
        "col_result": "Result",
        "col_difference": "First difference",
        "col_mistake": "Planted",
        "col_verdict": "Verdict",
        "col_tv": "Total variation",
        "col_chance": "by chance",
        "col_why": "What goes wrong, and who met it",
        "col_text": "Text",
        "wide": "no drafter, passes of {k} tokens",
        "same": "same, {n} tokens",
        "tie": "tie",
        "fault": "fault",
        "differs": "token {index}: {plain} / {other}; logits {gap} apart, the top two {top}",
        "none": "none",
        "green": "green",
        "red": "red",
        "right_rule": "nothing: the right rule",
        "why_accept_all": "Every draft stays, so the text is the drafter's. Prompt lookup in OpenVINO GenAI gave "
        "its drafts a made-up "
        "probability with which sampling always accepted them (mended since); a sampler of vllm-ascend compared with "
        "a number fixed at 0.",
        "why_soft_argmax": "The draft is always the most probable token, yet it is judged as if it had been drawn "
        "from the softmax: the ratio "
        "is wrong. The author of speculative-sampling confirmed it in his code; in transformers one of the "
        "drafters did so.",
        "why_target_for_residual": "Accepted drafts already had their share of the target; drawing from it again "
        "gives them a second one. "
        "Spec-RL draws so at the first rejection; its authors say they speed up training and do not aim at the "
        "same law.",
        "why_one_sided_temperature": "The drafter draws at the temperature asked for, the target is read at 1: "
        "what comes out is the law at 1. "
        "In vLLM the target's probabilities in rejection sampling lacked the sampling settings until a fix was "
        "merged.",
        "why_late_truncation": "A draft is dropped because of its own probability, so improbable drafts never "
        "stand trial and the others "
        "count too much. ik_llama.cpp drops such drafts, harmlessly where the target's own draw decides; the "
        "DSpark paper lets "
        "only what was known before the draw decide.",
        "why_one_number": "The number that rejected the draft is known to be large, and then draws the token in "
        "its place: tokens late in the "
        "vocabulary come too often. A pull request reports and mends it in vllm-ascend.",
        "sources": "Seen in:",
        "col_p": "p",
    },
    "zh": {
        "prove_view": "证明的结果",
        "what_greedy": "温度为 0 时，无论哪个草稿模型、K 取几，都必须给出普通解码的词元。绿：float32 "
        "下每个答案都相同。bfloat16 下，两个 logit 的差距小到舍入误差以内时，答案可能从那里分岔；"
        "普通解码改用更宽的前向计算时，也会在那里和自己分岔。",
        "what_sampling": "接下来两个词元的目标分布是精确已知的。规则用两个模型的真实分布（top-k {top_k}）抽几千次。"
        "绿：抽样符合该分布。红：拟合差到这个地步，偶然发生的概率低于 {alpha}。",
        "what_seeds": "在 coupled 规则下，两条赛道用同样的噪声抽样。绿：同一种子下，各个草稿模型、各个温度都给出普"
        "通采样的词元。",
        "what_mistakes": "同一个实验，在 rejection 规则里埋入一个真实发生过的错误。正确的规则必须保持绿色，每个错误"
        "都必须变红。",
        "idle": "还没有做过证明。",
        "idle_detail": "选好要证明什么，然后按“证明”。",
        "waiting": "等待设备",
        "waiting_detail": "设备一次只跑一场比赛或一个证明。",
        "running": "进行中",
        "reading": "正在取得两个模型的分布",
        "drawing": "已抽 {n} / {all} 次。抽完才有结论。",
        "writing": "已写出 {n} / {all} 个答案",
        "stopped": "已停止",
        "stopped_detail": "下面的内容保留。没有抽完就没有结论。",
        "failed": "证明没有跑起来",
        "green_greedy": "绿：文本相同",
        "green_greedy_detail": "float32 的 {n} 个答案都与普通解码逐个词元一致。bfloat16 的 {short} 个中有 {ties} "
        "个因 logit 并列而分岔。",
        "red_greedy": "红：有文本不同，而且不是并列",
        "red_answers_detail": "{all} 个答案中有 {n} 个在不该不同的地方不同。各行写明位置。",
        "green_seeds": "绿：同一种子，同一文本",
        "green_seeds_detail": "{n} 个答案都与普通采样逐个词元一致。",
        "red_seeds": "红：种子相同，文本却不同",
        "green_sampling": "绿：分布相同",
        "green_sampling_detail": "{n} 次抽样符合目标分布：偶然拟合得更差的概率 p = {p}。",
        "red_sampling": "红：分布不同",
        "red_sampling_detail": "{n} 次抽样不符合目标分布：p = {p}，低于 {alpha}。",
        "red_typical": "红，理应如此：这个规则本来就有损。",
        "green_mistakes": "一切正常：正确的规则是绿色，每个错误都是红色",
        "green_mistakes_detail": "每项抽 {n} 次。各行写明错在哪里、在哪里见过。",
        "red_mistakes": "不正常",
        "red_mistakes_detail": "有错误仍是绿色，或正确的规则变红了。温度为 1 时，只有一边用温度不会有任何影响；其他"
        "情况可能要抽更多次。",
        "green_planted": "绿，尽管埋入了错误",
        "green_planted_detail": "在这里影响太小，{n} 次抽样看不出来。",
        "chart_token": "下一个词元",
        "chart_pair": "接下来两个词元",
        "drawn": "抽样",
        "law": "目标分布",
        "rarer": "其余更少见的",
        "not_shown": "另有 {n} 种结果参与比较，没有画出。",
        "fit": "全变差距离 {tv}；仅凭偶然也有 {mean} ± {spread}。卡方检验 p = {p}。",
        "col_prompt": "提示词",
        "col_drafter": "草稿模型",
        "col_precision": "数值格式",
        "col_temperature": "温度",
        "col_result": "结果",
        "col_difference": "首个不同处",
        "col_mistake": "埋入的错误",
        "col_verdict": "结论",
        "col_tv": "全变差距离",
        "col_chance": "仅凭偶然",
        "col_why": "错在哪里，谁遇到过",
        "col_text": "文本",
        "wide": "无草稿，每次前向计算 {k} 个词元",
        "same": "相同，{n} 个词元",
        "tie": "并列",
        "fault": "错误",
        "differs": "词元 {index}：{plain} / {other}；logit 相差 {gap}，最高两个相差 {top}",
        "none": "无",
        "green": "绿",
        "red": "红",
        "right_rule": "无：正确的规则",
        "why_accept_all": "每个草稿都留下，文本就成了草稿模型的。OpenVINO GenAI 的 prompt lookup "
        "给草稿填了一个虚构的概率，使采样时总是接受它们（后来已修复）；vllm-ascend 的一个采样器拿来比较的数固定为 0。",
        "why_soft_argmax": "草稿总是取概率最高的词元，判定时却当作是从 softmax 抽出来的，比值就错了。"
        "speculative-sampling 的作者承认自己的代码如此；transformers 里也有一种草稿方式这样做过。",
        "why_target_for_residual": "被接受的草稿已经占了目标分布的一份；再从目标分布抽，就给了它们第二份。Spec-RL "
        "在首次拒绝处就这样抽；作者说明其目的是加速训练，并不追求分布相同。",
        "why_one_sided_temperature": "草稿模型按要求的温度抽样，目标模型却按温度 1 计算：得到的是温度 1 的分布。"
        "vLLM 的拒绝采样里，目标概率曾没有用上采样设置，后来合并了修复。",
        "why_late_truncation": "因为草稿自己的概率低就把它丢掉，低概率的草稿便永远不会被判定，其余的占得太多。"
        "ik_llama.cpp 会丢掉这样的草稿，但在由目标模型自己的抽样决定时无害；DSpark 论文只让抽样之前已知的信息来决定。",
        "why_one_number": "拒绝草稿的那个随机数必然偏大，再用它抽替换的词元，词表靠后的词元就会太多。vllm-ascend "
        "有一个拉取请求报告并修复了它。",
        "sources": "出处：",
        "col_p": "p",
    },
    "zh-TW": PROVE_TRADITIONAL,
}
"""Placeholders are `{name}`."""
