"""The texts of a page on Spaces: why a lent GPU did not run. `SPACE_SENTENCES` joins `texts.SENTENCES`."""

from specdemo.limits import GPU_SENTENCES

SPACE_SENTENCES: dict[str, dict[str, str]] = {
    "en": dict(GPU_SENTENCES),
    "zh": {
        "gpu_quota": "ZeroGPU 配额不够跑这场比赛。{when}"
        "登录 Hugging Face 可获得更多配额，也可以减少词元数，或观看录制的比赛。",
        "gpu_pending": "ZeroGPU 配额大多被仍在运行的任务占用。请等它们结束后再试。",
        "gpu_too_long": "这场比赛要用的 GPU 时间超过了一次可借用的上限。请减少词元数。",
        "gpu_none_free": "没有等到空闲的 GPU。请过一分钟再试，这期间可以看录制的比赛。",
        "gpu_taken_back": "比赛还没结束，GPU 就被收回了。请减少词元数。",
        "gpu_stale_page": "页面打开太久，已不能借用 GPU。请刷新页面后再开赛。",
        "gpu_race_only": "在 ZeroGPU 上只能比赛：这项测量会用完一位访客当天的配额。请在自己的机器上运行。",
        "gpu_failed": "GPU 无法使用（{kind}）。请再试一次，这期间可以看录制的比赛。",
        "gpu_when": "请在 {wait} 后再试。",
    },
    "zh-TW": {
        "gpu_quota": "ZeroGPU 配額不夠跑這場比賽。{when}"
        "登入 Hugging Face 可取得更多配額，也可以減少詞元數，或觀看錄製的比賽。",
        "gpu_pending": "ZeroGPU 配額大多被仍在執行的工作占用。請等它們結束後再試。",
        "gpu_too_long": "這場比賽要用的 GPU 時間超過了一次可借用的上限。請減少詞元數。",
        "gpu_none_free": "沒有等到閒置的 GPU。請過一分鐘再試，這段時間可以看錄製的比賽。",
        "gpu_taken_back": "比賽還沒結束，GPU 就被收回了。請減少詞元數。",
        "gpu_stale_page": "頁面開啟太久，已不能借用 GPU。請重新整理頁面後再開賽。",
        "gpu_race_only": "在 ZeroGPU 上只能比賽：這項測量會用完一位訪客當天的配額。請在自己的機器上執行。",
        "gpu_failed": "GPU 無法使用（{kind}）。請再試一次，這段時間可以看錄製的比賽。",
        "gpu_when": "請在 {wait} 後再試。",
    },
}
