"""Files that people send: a kubeconfig, or what kubectl wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.http import HttpRequest

from apps.clusters.errors import BadKubeconfig

LONGEST_KUBECONFIG = 256 * 1024


def kubeconfig_of(request: HttpRequest) -> str:
    """From the file if one was sent, else the text. Raises BadKubeconfig."""
    upload = request.FILES.get("file")
    if upload is None:
        return request.POST.get("kubeconfig", "")
    if (upload.size or 0) > LONGEST_KUBECONFIG:
        raise BadKubeconfig(f"the file has {upload.size:,} bytes: that is no kubeconfig")
    try:
        return upload.read().decode()
    except UnicodeDecodeError as error:
        raise BadKubeconfig("the file is no UTF-8 text: export the kubeconfig again") from error


def keep_upload(upload: Any, path: Path) -> tuple[str, Path]:
    """Where the upload lies now, and what its sender calls it."""
    with path.open("wb") as kept:
        for chunk in upload.chunks():
            kept.write(chunk)
    return str(upload.name)[:120], path
