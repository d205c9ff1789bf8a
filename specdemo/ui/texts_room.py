"""The texts of the classroom: waiting, the room's address, the projector view, the exported site.

`ROOM_VIEW` and `ROOM_SENTENCES` join `view_texts.VIEW` and `texts.SENTENCES`; `SITE` is the site's own bar.
"""

ROOM_VIEW: dict[str, dict[str, str]] = {
    "en": {
        "waiting_seconds": "About {seconds} s to go.",
        "projector": "Projector",
        "projector_title": "Large type for the back of the room, on and off (key P)",
        "join": "Join",
        "join_title": "Show the address of this page and its QR code, for the class (key J)",
        "join_heading": "Open this page",
        "join_how": "in the same network: scan the code, or type the address.",
        "close": "Close (Escape)",
    },
    "zh": {
        "waiting_seconds": "大约还要 {seconds} 秒。",
        "projector": "投影",
        "projector_title": "切换大字号，让后排也看得清（P 键）",
        "join": "加入",
        "join_title": "向全班显示本页地址和二维码（J 键）",
        "join_heading": "打开本页",
        "join_how": "连接同一网络，扫码或输入地址。",
        "close": "关闭（Escape）",
    },
    "zh-TW": {
        "waiting_seconds": "大約還要 {seconds} 秒。",
        "projector": "投影",
        "projector_title": "切換大字，讓後排也看得清（P 鍵）",
        "join": "加入",
        "join_title": "向全班顯示本頁網址和 QR Code（J 鍵）",
        "join_heading": "開啟本頁",
        "join_how": "連上同一個網路，掃描 QR Code 或輸入網址。",
        "close": "關閉（Escape）",
    },
}

ROOM_SENTENCES: dict[str, dict[str, str]] = {
    "en": {"queue_full": "{num} people wait for the device already. Press Race again in a minute."},
    "zh": {"queue_full": "已有 {num} 人在等待设备。请过一分钟再按“开赛”。"},
    "zh-TW": {"queue_full": "已有 {num} 人在等待裝置。請過一分鐘再按「開賽」。"},
}

SITE: dict[str, dict[str, str]] = {
    "en": {
        "site_title": "Speculative decoding, recorded",
        "site_race": "Recorded race",
        "site_language": "Language",
        "site_missing": "The recording could not be read: the site's folder is not whole. Copy it again.",
        "site_no_script": "This page needs JavaScript, which is switched off here.",
    },
    "zh": {
        "site_title": "投机解码：录制的比赛",
        "site_race": "录制的比赛",
        "site_language": "语言",
        "site_missing": "无法读取这场比赛的录制：站点文件夹不完整，请重新复制。",
        "site_no_script": "本页需要 JavaScript，但它在这里已被停用。",
    },
    "zh-TW": {
        "site_title": "投機解碼：錄製的比賽",
        "site_race": "錄製的比賽",
        "site_language": "語言",
        "site_missing": "無法讀取這場比賽的錄製：網站資料夾不完整，請重新複製。",
        "site_no_script": "本頁需要 JavaScript，但它在這裡已被停用。",
    },
}
