"""What the Spacefiles of tests have in common."""

CARD = """\
card:
  title: A race
  emoji: 🏁
  colorFrom: indigo
  colorTo: green
  sdk: gradio
  sdk_version: "6.31.0"
  python_version: "3.12.12"
  app_file: app.py
  short_description: Watch it
  license: apache-2.0
"""
