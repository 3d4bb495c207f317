"""Finds a Chromium for the browser tests, or gets one where that is a matter of one command."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

VARIABLE = "HITL_TEST_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
APPS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
ADVICE = (
    "the browser tests need a Chromium or Chrome.\n"
    "  Debian, Ubuntu:  sudo apt-get install -y chromium\n"
    "  macOS:           brew install --cask google-chrome\n"
    f"  elsewhere:       {VARIABLE}=/path/to/chromium make test\n"
    "or leave them out:  make test SKIP=browser"
)


def find() -> str | None:
    told = os.environ.get(VARIABLE)
    if told:
        return told if Path(told).exists() else None
    on_path = (shutil.which(name) for name in NAMES)
    apps = (app for app in APPS if Path(app).exists())
    return next((found for found in (*on_path, *apps) if found), None)


def install() -> bool:
    """By apt as root; True if that went well. Says nothing when it cannot be done here."""
    if os.geteuid() != 0 or not shutil.which("apt-get") or os.environ.get(VARIABLE):
        return False
    print("installing chromium (apt-get)", flush=True)
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-dejavu-core"]
    for words in (["apt-get", "update", "-qq"], command):
        done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stderr[-1500:], flush=True)
    return find() is not None
