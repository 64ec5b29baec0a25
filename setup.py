"""Build the kernel: compile it where there is a compiler, ship the same source where there is none.

TIDELOG_REQUIRE_KERNEL=1   a failed compile is an error (CI and `make` set it)
TIDELOG_SANITIZE=1         compile with AddressSanitizer and UndefinedBehaviorSanitizer (`make fuzz`)
TIDELOG_OPTIMIZE=0         compile quickly and not for speed: for tests of what is in a package
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

KERNEL = Path("src/tidelog/record/kernel")
DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,  # the C types are in the .pxd files
    "boundscheck": False,  # the kernel checks every bound itself, once
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
}
SANITIZE = ["-fsanitize=address,undefined", "-O1", "-g", "-fno-omit-frame-pointer"]


def kernel_extensions() -> list[Extension]:
    """One extension for each kernel source that has a .pxd beside it."""
    flags = SANITIZE if os.environ.get("TIDELOG_SANITIZE") == "1" else [f"-O{os.environ.get('TIDELOG_OPTIMIZE', '3')}", "-g0"]
    link_flags = SANITIZE[:1] if os.environ.get("TIDELOG_SANITIZE") == "1" else []
    sources = sorted(path.with_suffix(".py") for path in KERNEL.glob("*.pxd"))
    extensions = [
        Extension(f"tidelog.record.kernel.{path.stem}", [path.as_posix()], extra_compile_args=flags, extra_link_args=link_flags)
        for path in sources
    ]
    built: list[Extension] = cythonize(  # type: ignore[no-untyped-call]
        extensions, compiler_directives=DIRECTIVES, build_dir="build/cython", quiet=True, nthreads=os.cpu_count() or 0
    )
    for extension in built:
        # Set here, since cythonize drops it: without a compiler the build goes on with the sources alone.
        extension.optional = os.environ.get("TIDELOG_REQUIRE_KERNEL") != "1"
    return built


setup(ext_modules=kernel_extensions(), options={"build_ext": {"parallel": os.cpu_count()}})
