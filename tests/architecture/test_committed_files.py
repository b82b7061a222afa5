"""What must not be in the repository."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_lock_files_hold_no_address_and_no_local_path():
    offending = [
        f"{path.name}: {line}"
        for path in tracked()
        if path.suffix in (".lock", ".in") or path.name in ("package-lock.json", ".npmrc")
        for line in path.read_text().splitlines()
        if re.search(r"(https?|file)://|^(/|--)", line.strip()) and not line.strip().startswith("--hash=")
    ]
    assert offending == []


def test_every_locked_package_is_pinned_with_hashes():
    for lock in (ROOT / "requirements").glob("*.lock"):
        blocks = re.split(r"(?m)^(?=[A-Za-z0-9_.\[\],-]+==)", lock.read_text())[1:]
        assert blocks
        assert all("--hash=sha256:" in block for block in blocks)


def test_no_page_or_script_of_ours_names_another_host():
    offending = [
        f"{path.relative_to(ROOT)}: {match.group(0)}"
        for path in tracked()
        if path.suffix in (".html", ".js", ".css") and "vendor" not in path.parts
        for match in re.finditer(
            r"(?:src|href|url\()\s*=?\s*[\"'(]?\s*(?:https?:)?//[^\s\"')]+", path.read_text()
        )
    ]
    assert offending == []
