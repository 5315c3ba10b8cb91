"""Makes models-sample again: `make.py [simple] [digits] [mlp] [requests]`, everything without arguments.

digits takes about ten minutes on one core. Training is seeded; on another processor the last bits of the weights may
come out differently, so make the requests after the models.
"""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy: the order of additions stays the same
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import digits  # noqa: E402
import fonts  # noqa: E402
import pictures  # noqa: E402
import python_models  # noqa: E402
import simple  # noqa: E402

ROOT = fonts.HERE.parents[2] / "models-sample"
STEPS = {"simple": simple.make, "digits": digits.make_digits, "mlp": digits.make_mlp, "python": python_models.make, "requests": pictures.make}


def main():
    steps = sys.argv[1:] or list(STEPS)
    if unknown := [s for s in steps if s not in STEPS]:
        sys.exit(f"make.py: no step {', '.join(unknown)}; there are {', '.join(STEPS)}")
    for name in steps:
        STEPS[name](ROOT)


if __name__ == "__main__":
    main()
