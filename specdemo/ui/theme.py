"""Colours and fonts: system fonts only, so that no request leaves the machine."""

import re

import gradio as gr

_DECLARATION = re.compile(r"(--[\w-]+): ([^;]+);")
_USE = re.compile(r"var\((--[\w-]+)\)")
_FONTS = ("system-ui", "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", "sans-serif")
_MONO = ("ui-monospace", "Consolas", "monospace")


def page_theme() -> gr.themes.Base:
    """Gradio's base theme in the colours of the speculative lane."""
    theme = gr.themes.Base(
        primary_hue="teal",
        secondary_hue="teal",
        neutral_hue="slate",
        text_size="sm",
        spacing_size="sm",
        radius_size="md",
        font=_FONTS,
        font_mono=_MONO,
    )
    return theme.set(
        body_background_fill="#f7f7f4",
        body_background_fill_dark="#12151c",
        block_background_fill="#ffffff",
        block_background_fill_dark="#1a1f2a",
        border_color_primary="#e4e4de",
        border_color_primary_dark="#2b3242",
        button_primary_background_fill="#0f766e",
        button_primary_background_fill_hover="#0b5d55",
        button_primary_background_fill_dark="#2dd4bf",
        button_primary_background_fill_hover_dark="#5eead4",
        button_primary_text_color_dark="#06221e",
        slider_color="#0f766e",
        slider_color_dark="#2dd4bf",
    )


def theme_css(styles: str) -> str:
    """The theme's variables that `styles` use, light and dark, for a page without Gradio."""
    declared = [dict(_DECLARATION.findall(block)) for block in page_theme()._get_theme_css().split("}")[:2]]
    used: set[str] = set()
    wanted = set(_USE.findall(styles))
    while wanted - used:
        used |= wanted
        wanted = {name for block in declared for own in used & block.keys() for name in _USE.findall(block[own])}
    light, dark = ("".join(f"  {name}: {block[name]};\n" for name in sorted(used & block.keys())) for block in declared)
    return f":root {{\n  color-scheme: light;\n{light}}}\n:root.dark {{\n  color-scheme: dark;\n{dark}}}\n"
