"""One name for each GPU model, whatever its driver calls it."""

from __future__ import annotations

import re

_KNOWN = {
    "A10": "A10-24GB",
    "A30": "A30-24GB",
    "A100-SXM4-40GB": "A100-SXM4-40GB",
    "A100-SXM4-80GB": "A100-SXM4-80GB",
    "A100-SXM-80GB": "A100-SXM4-80GB",
    "A100-PCIE-40GB": "A100-PCIE-40GB",
    "A100-PCIE-80GB": "A100-PCIE-80GB",
    "A100 80GB PCIE": "A100-PCIE-80GB",
    "B200": "B200-180GB",
    "GH200 480GB": "GH200-96GB",
    "H100 80GB HBM3": "H100-SXM5-80GB",
    "H100 SXM5 80GB": "H100-SXM5-80GB",
    "H100 PCIE": "H100-PCIE-80GB",
    "H100 NVL": "H100-NVL-94GB",
    "H200": "H200-SXM5-141GB",
    "L4": "L4-24GB",
    "L40S": "L40S-48GB",
    "K80": "K80-12GB",
    "P100-SXM2-16GB": "P100-SXM2-16GB",
    "RTX 4090": "RTX4090-24GB",
    "T4": "T4-16GB",
    "V100-SXM2-16GB": "V100-SXM2-16GB",
    "V100-SXM2-32GB": "V100-SXM2-32GB",
}
_VENDOR = re.compile(r"^(?:NVIDIA|Tesla|GeForce|GRID)\s+", re.IGNORECASE)
_OTHER = re.compile(r"[^A-Za-z0-9.]+")


def model_of(name: str, memory_bytes: int | None) -> str:
    """The model as selectors and profiles name it: family, form, memory.

    A model that is not in the list keeps its name, with dashes, and gets its memory in GB if that is missing.
    """
    short = name.strip()
    while (cut := _VENDOR.sub("", short)) != short:
        short = cut
    known = _KNOWN.get(short.upper())
    if known is not None:
        return known
    plain = _OTHER.sub("-", short).strip("-") or "unknown"
    if memory_bytes is not None and not re.search(r"\dGB$", plain, re.IGNORECASE):
        plain += f"-{round(memory_bytes / (1 << 30))}GB"
    return plain
