"""Says to setuptools that the wheel has a library and programs, and suits any Python 3."""
import os

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class BinaryDistribution(Distribution):
    def has_ext_modules(self) -> bool:
        return True


class AnyPython(bdist_wheel):
    def get_tag(self) -> "tuple[str, str, str]":
        return "py3", "none", super().get_tag()[2]


setup(version=os.environ["LECTERN_VERSION"], distclass=BinaryDistribution,
      cmdclass={"bdist_wheel": AnyPython})
