"""Regenerates models-sample: `make.py [simple] [digits] [mlp] [python] [requests]`. Without arguments it runs all
steps.

digits takes about ten minutes on one core. Training is seeded, but the last bits of the weights depend on the
processor. Therefore the requests must be made after the models. """

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before the import of numpy: keeps the order of additions
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import digits  # noqa: E402
import fonts  # noqa: E402
import pictures  # noqa: E402
import python_models  # noqa: E402
import simple  # noqa: E402

ROOT = fonts.HERE.parents[2] / "models-sample"
STEPS = {"simple": simple.make, "digits": digits.make_digits, "mlp": digits.make_mlp, "python": python_models.make,
         "requests": pictures.make}


def main():
    steps = sys.argv[1:] or list(STEPS)
    if unknown := [s for s in steps if s not in STEPS]:
        sys.exit(f"make.py: no step {', '.join(unknown)}; there are {', '.join(STEPS)}")
    for name in steps:
        STEPS[name](ROOT)


if __name__ == "__main__":
    main()
