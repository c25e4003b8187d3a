from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyDrgn(PythonPackage):
    """A programmable debugger."""

    homepage = "https://github.com/osandov/drgn"
    pypi = "drgn/drgn-0.3.0.tar.gz"

    license("LGPL-2.1-or-later")

    version("0.3.0", sha256="9794cb2a8ac8a3dc25c4756ad5a6272e078ca06731ff3f6ac32308b9f770a015")

    depends_on("c", type="build")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("py-setuptools", type="build")
    depends_on("python@3.9:", type=("build", "link", "run"))
    depends_on("elfutils")
