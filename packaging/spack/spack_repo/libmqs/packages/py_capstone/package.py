from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyCapstone(PythonPackage):
    """A disassembler, with its C library inside."""

    homepage = "https://www.capstone-engine.org"
    pypi = "capstone/capstone-5.0.9.tar.gz"

    license("BSD-3-Clause")

    version("5.0.9", sha256="0429af292ddc604d3c9344696807e281d5e728db029f00e6a4ea9e3bff1aac9e")

    depends_on("c", type="build")
    depends_on("cmake", type="build")
    depends_on("gmake", type="build")
    depends_on("py-setuptools", type="build")
    depends_on("python@3.8:", type=("build", "run"))
