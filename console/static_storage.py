"""How static files are served: under names that change with their content, in imports of modules as well."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class StaticFiles(CompressedManifestStaticFilesStorage):
    """Our modules import their parts by their new names, so that a browser never mixes two versions.

    What is vendored stays as it is: some of it imports names that only a bundler could resolve.
    """

    support_js_module_import_aggregation = True
    _js_module_import_aggregation_patterns = (
        "js/*.js",
        CompressedManifestStaticFilesStorage._js_module_import_aggregation_patterns[1],
    )
