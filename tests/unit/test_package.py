"""The package itself: light to import, exports what it says, knows its kernel."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tidelog
from tidelog import errors
from tidelog.record import kernel

SOURCE = Path(tidelog.__file__).parent


def run_python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_touches_nothing_heavy() -> None:
    loaded = run_python("import sys, tidelog; print(*sorted(sys.modules))").split()
    assert "tidelog" in loaded
    assert not {"numpy", "pyarrow", "pyspark", "typer", "cramjam", "zstandard"} & set(loaded)


def test_the_record_layer_touches_no_pyarrow_until_columns_are_asked_for() -> None:
    code = (
        "import sys; from tidelog.record import encode_batches, read_batches, to_arrow;"
        "data = encode_batches([(b'k', b'v')]); list(next(read_batches(data)));"
        "before = 'pyarrow' in sys.modules; to_arrow(data); print(before, 'pyarrow' in sys.modules)"
    )
    assert run_python(code) == "False True"


@pytest.mark.parametrize("name", ["tidelog", "tidelog.record"])
def test_exports(name: str) -> None:
    module = importlib.import_module(name)
    assert sorted(module.__all__, key=str.lower) == sorted(set(module.__all__), key=str.lower)
    for exported in module.__all__:
        assert getattr(module, exported) is not None
    assert set(module.__all__) <= set(dir(module))


def test_no_other_names() -> None:
    with pytest.raises(AttributeError, match="module 'tidelog' has no attribute 'kafka'"):
        tidelog.kafka  # type: ignore[attr-defined]  # noqa: B018


def test_every_kernel_source_has_its_types_and_is_listed() -> None:
    folder = SOURCE / "record" / "kernel"
    typed = {path.stem for path in folder.glob("*.pxd")}
    assert typed == set(kernel.MODULES)
    assert {path.stem for path in folder.glob("*.py")} == typed | {"__init__", "no_cython"}


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_the_kernel_mode_can_be_chosen(mode: str) -> None:
    environment = {"TIDELOG_KERNEL": "interpreted" if mode == "interpreted" else ""}
    assert run_python("import tidelog; print(tidelog.kernel_mode())", **environment) == mode


def test_the_interpreted_kernel_needs_no_cython() -> None:
    code = (
        "import sys; sys.modules['cython'] = None\n"
        "from tidelog.record import encode_batches, read_batches, kernel_mode\n"
        "print(kernel_mode(), [r.value for r in next(read_batches(encode_batches([(None, b'v')])))])"
    )
    assert run_python(code, TIDELOG_KERNEL="interpreted") == "interpreted [b'v']"


def test_the_tree_in_the_docstring_of_errors_is_the_real_one() -> None:
    drawn = {word for line in (errors.__doc__ or "").splitlines() for word in line.replace("─", " ").split() if word.endswith("Error")}
    real = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, errors.TidelogError)}
    assert real <= drawn
    assert drawn - real <= {"ValueError"}


def test_types_are_shipped() -> None:
    assert (SOURCE / "py.typed").exists()
