"""What the page says of a race on servers. Keys begin with how much these tell (events.Known), or with `server_`."""

SERVER_VIEW: dict[str, dict[str, str]] = {
    "en": {
        "server_rounds": (
            "Both lanes ran on {kind}, one after the other, by this machine's clock with the network in it. It counts "
            "the drafts of each round and the accepted ones; which drafts failed and what drafting took, it does "
            "not say."
        ),
        "server_tokens": (
            "Both lanes ran on {kind}, one after the other, by this machine's clock with the network in it. Its stream "
            "does not say which tokens were drafts, so none is coloured."
        ),
        "server_totals": "Of {drafted} drafted tokens {accepted} were accepted ({source}).",
        "server_no_totals": "It reported no draft counts for this answer.",
        "server_prefill_title": "The plain lane runs first; then both are shown side by side",
        "server_speculative_sub": "the server's own drafter and K",
        "server_counts": "{tokens} tokens · {seconds} s · {passes} passes · first token {first} s",
        "tokens_counts": "{tokens} tokens · {seconds} s · first token {first} s",
        "server_passes": "{passes} target passes instead of {plain_passes}",
        "server_so_far": "{passes} target passes against {plain_passes} so far",
        "tokens_passes": "",
        "tokens_so_far": "",
        "server_round_times": "{verify} ms between what arrived",
        "differ_server": (
            "The texts differ from token {index} on: in the server's passes of other widths, close logits can change "
            "places."
        ),
    },
    "zh": {
        "server_rounds": (
            "两条赛道都在 {kind} 上先后运行，由本机计时，包含网络时间。"
            "它报告每轮的草稿数和接受数，但不说明哪些草稿失败、起草花了多久。"
        ),
        "server_tokens": (
            "两条赛道都在 {kind} 上先后运行，由本机计时，包含网络时间。它的数据流不说明哪些词元是草稿，因此都不着色。"
        ),
        "server_totals": "共起草了 {drafted} 个词元，接受 {accepted} 个（{source}）。",
        "server_no_totals": "它没有报告这次回答的草稿数。",
        "server_prefill_title": "先运行普通解码，然后两条赛道并排显示",
        "server_speculative_sub": "服务器自带的草稿模型和 K",
        "server_counts": "{tokens} 词元 · {seconds} 秒 · {passes} 次前向 · 首词元 {first} 秒",
        "tokens_counts": "{tokens} 词元 · {seconds} 秒 · 首词元 {first} 秒",
        "server_passes": "目标模型前向 {passes} 次，而不是 {plain_passes} 次",
        "server_so_far": "目前目标模型前向 {passes} 次，对 {plain_passes} 次",
        "tokens_passes": "",
        "tokens_so_far": "",
        "server_round_times": "与上次到达相隔 {verify} 毫秒",
        "differ_server": "两段文本从第 {index} 个词元起不同：服务器前向的宽度不同，相近的 logits 可能换位。",
    },
    "zh-TW": {
        "server_rounds": (
            "兩條賽道都在 {kind} 上先後執行，由本機計時，包含網路時間。"
            "它報告每輪的草稿數和接受數，但不說明哪些草稿失敗、起草花了多久。"
        ),
        "server_tokens": (
            "兩條賽道都在 {kind} 上先後執行，由本機計時，包含網路時間。它的資料流不說明哪些詞元是草稿，因此都不著色。"
        ),
        "server_totals": "共起草了 {drafted} 個詞元，接受 {accepted} 個（{source}）。",
        "server_no_totals": "它沒有報告這次回答的草稿數。",
        "server_prefill_title": "先執行普通解碼，然後兩條賽道並排顯示",
        "server_speculative_sub": "伺服器自帶的草稿模型和 K",
        "server_counts": "{tokens} 詞元 · {seconds} 秒 · {passes} 次前向計算 · 首詞元 {first} 秒",
        "tokens_counts": "{tokens} 詞元 · {seconds} 秒 · 首詞元 {first} 秒",
        "server_passes": "目標模型前向計算 {passes} 次，而不是 {plain_passes} 次",
        "server_so_far": "目前目標模型前向計算 {passes} 次，對 {plain_passes} 次",
        "tokens_passes": "",
        "tokens_so_far": "",
        "server_round_times": "與上次到達相隔 {verify} 毫秒",
        "differ_server": "兩段文字從第 {index} 個詞元起不同：伺服器前向計算的寬度不同，相近的 logits 可能換位。",
    },
}

SERVER_DRAFTER_LINES = {"zh": "服务器：它启动时所用的草稿模型", "zh-TW": "伺服器：它啟動時所用的草稿模型"}
"""The menu's line for what speculates on a server, which `remote.source` has in English."""
