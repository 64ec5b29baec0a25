"""The kernel: the loops over records and batch headers, in Python that compiles.

Each module is ordinary Python with a `.pxd` of C types beside it. Where the package was built with a compiler, Python finds the
compiled module first; where it was not, the same source runs interpreted, some hundred times slower. `TIDELOG_KERNEL=interpreted`
asks for the source even where the compiled module is there, which is how the tests run both.
"""

import importlib
import importlib.util
import os
import sys
import warnings
from pathlib import Path

# In the order of their imports of each other.
MODULES = (
    "clock",
    "arena",
    "lz4_frame",
    "zstd_frame",
    "payloads",
    "record",
    "any_record",
    "records",
    "objects",
    "headers",
    "joined_crc",
    "columns",
    "header_list",
    "encode",
    "legacy",
    "hashing",
    "offset_map",
    "buckets",
    "index_search",
    "seek",
    "survey",
    "assign",
    "plain_batch",
    "single_batch",
    "stamping",
    "gathering",
    "indexing",
    "compact",
)


def kernel_mode() -> str:
    """`compiled` or `interpreted`."""
    files = [importlib.import_module(f"{__name__}.{name}").__file__ or "" for name in MODULES]
    return "interpreted" if any(file.endswith(".py") for file in files) else "compiled"


def _is_compiled(name: str) -> bool:
    spec = importlib.util.find_spec(f"{__name__}.{name}")
    return spec is not None and not (spec.origin or "").endswith(".py")


def _load_interpreted() -> None:
    """Put the sources into `sys.modules`, before the import system finds the compiled modules beside them."""
    for name in MODULES:
        full_name = f"{__name__}.{name}"
        spec = importlib.util.spec_from_file_location(full_name, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[full_name] = module
        spec.loader.exec_module(module)


if os.environ.get("TIDELOG_KERNEL") == "interpreted":
    _load_interpreted()
elif not all(_is_compiled(name) for name in MODULES):
    warnings.warn(
        "tidelog's kernel is not compiled and runs interpreted, some hundred times slower: install a C compiler and build again "
        "(TIDELOG_REQUIRE_KERNEL=1 shows why it fails), or set TIDELOG_KERNEL=interpreted if this is meant",
        RuntimeWarning,
        stacklevel=2,
    )
