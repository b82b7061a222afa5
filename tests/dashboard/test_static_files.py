"""What is vendored is exactly what was looked at, and nothing refers to what is not there."""

import hashlib
import re
from pathlib import Path

from django.core.management import call_command

STATIC = Path(__file__).parents[2] / "static"
VENDORED = {
    "bootstrap-5.3.min.css": "06395d93f5adbc0593ed84544eb043fa32ab8619c6b7195e803e119f5b9f3672",
    "plotly-LICENSE.txt": "8c45d9eaf50c2f72dd9c7ab9ef440788ba58a3538484b5c51c1f17d5128752e7",
    "plotly-cartesian-4.1.min.js": "79542150855a52c567260e3137095dbe2b744e6d702a5cabe67da246942fba7a",
}


def test_vendored_files_are_pinned():
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (STATIC / "vendor").iterdir()
    }
    assert found == VENDORED


def test_no_file_names_a_source_map_that_is_not_shipped():
    assert [path.name for path in STATIC.rglob("*.*") if "sourceMappingURL" in path.read_text()] == []


def test_colours_stand_in_the_tokens_alone():
    for path in (STATIC / "css").iterdir():
        if path.name != "tokens.css":
            assert (
                re.findall(r"#[0-9a-f]{6}\b|#[0-9a-f]{3}\b(?!000)", path.read_text().replace("#000", ""))
                == []
            )


def test_every_token_that_is_used_is_defined():
    css = "".join(path.read_text() for path in (STATIC / "css").iterdir())
    used = set(re.findall(r"var\((--[\w-]+)", css))
    assert used - set(re.findall(r"(--[\w-]+)\s*:", css)) == set()


def test_our_modules_import_their_parts_by_the_names_that_change_with_them(tmp_path, settings):
    """Collected as a deployment does; a browser that kept an old part could not be handed it."""
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "console.static_storage.StaticFiles"},
    }
    call_command("collectstatic", interactive=False, verbosity=0)
    entry = next(path for path in (tmp_path / "js").glob("dense.*.js") if path.name.count(".") == 2)
    imported = re.findall(r'^import .* from "\./(.+)";', entry.read_text(), re.MULTILINE)
    assert imported
    assert all(re.fullmatch(r"dense/\w+\.[0-9a-f]{12}\.js", name) for name in imported)
    assert all((tmp_path / "js" / name).is_file() for name in imported)
