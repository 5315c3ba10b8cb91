"""The command nereid: python -m nereid serve --model-repository=models"""

import os
import sys

from ._library import PROGRAM


def main():
    os.execv(PROGRAM, [PROGRAM, *sys.argv[1:]])


if __name__ == "__main__":
    main()
