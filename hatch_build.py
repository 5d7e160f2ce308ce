"""Compiles ``kernels/passes.c`` while the package is installed or a wheel is built; without it NumPy serves."""

import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = Path("src/fedsvd/kernels")


class CompiledPasses(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the library to the wheel, which is then one of this platform, for every Python."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        why_not = runpy.run_path(str(Path(self.root) / PLACE / "build.py"))["build"]()
        if why_not:
            self.app.display_warning(f"{why_not}; uploads of split columns will be slower")
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["artifacts"].append(str(PLACE / "passes.so"))
        build_data["pure_python"], build_data["tag"] = False, f"py3-none-{platform}"
