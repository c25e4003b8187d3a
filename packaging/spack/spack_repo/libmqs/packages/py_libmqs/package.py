from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyLibmqs(PythonPackage):
    """Why an MPI job hangs: the message queues of Open MPI, MPICH and Intel MPI, for people and for debuggers.

    It needs no MPI: it reads the jobs of whichever one they use.
    """

    homepage = "https://github.com/libmqs/libmqs"
    git = "https://github.com/libmqs/libmqs.git"

    license("BSD-3-Clause")

    version("0.1.0", tag="v0.1.0")

    depends_on("c", type="build")
    depends_on("python@3.10: +shared", type=("build", "link", "run"))
    depends_on("py-argparse-manpage@4.5:", type="build")
    depends_on("py-cffi@1.17:", type=("build", "run"))
    depends_on("py-setuptools@77:", type="build")
    depends_on("py-shtab@1.8:", type="build")
    depends_on("py-capstone@5.0.2:", type="run")
    depends_on("py-clustershell@1.9:", type="run")
    depends_on("py-drgn@0.0.31:", type="run")
    depends_on("py-rich@13:", type="run")

    conflicts("platform=darwin", msg="it reads processes of Linux")
    conflicts("platform=windows", msg="it reads processes of Linux")
