"""Prepares the build with the tag "cuda": NVIDIA's header, and an archive that replaces libcuda for the linker.

usage: cuda.py OUTDIR

The header comes from the PyPI wheel `nvidia-cuda-runtime-cu12`, pinned below by version and hash. The script writes
include/cuda.h, lib/libcuda.a and, last, env to OUTDIR. env has shell lines with the variables for go build. If the same
script already wrote them, it does nothing. If the tag cannot be used, it prints the reason to standard error, writes no
env and exits with status 1.

libcuda.a contains every function that cuda.h declares, as a jump through a table. nereid_cuda_open loads libcuda.so.1,
a part of NVIDIA's driver, and fills the table. Before that, and without a driver, each function returns an error. So
one program runs on machines with and without a driver, and uses the driver only when needed.

The program exports none of these functions: libraries that are linked against libcuda.so.1 get the driver's functions.

cuInit does nothing and succeeds. gorgonia.org/cu calls it in an init function and exits if it fails, and it would fail
without a GPU. nereid_cuda_open calls the real cuInit.
"""

import hashlib
import os
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys
import zipfile

WHEEL = "nvidia-cuda-runtime-cu12==12.9.79"  # cu does not compile with the headers of CUDA 13
DIGEST = "25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3"
HEADER = "nvidia/cuda_runtime/include/cuda.h"

# The folders in the cgo directives of gorgonia.org/cu. Files there take precedence over ours.
THEIR_INCLUDES = ["/usr/local/cuda/include", "/usr/local/cuda-11.0/targets/x86_64-linux/include",
                  "/usr/local/cuda-10.2/include"]
THEIR_INCLUDES += ["/usr/include", "/opt/cuda/include"]
THEIR_LIBRARIES = ["/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/usr/local/cuda-11.0/targets/x86_64-linux/lib"]
THEIR_LIBRARIES += ["/usr/local/cuda-10.2/lib64", "/usr/local/cuda-10.2/lib", "/usr/lib/x86_64-linux-gnu"]
THEIR_LIBRARIES += ["/opt/cuda/lib64", "/opt/cuda/lib"]

SHIM = """
#include <dlfcn.h>
#include <stddef.h>

/* The result of a missing function: not initialized (3) before nereid_cuda_open, no device (100) without a driver, not
   found (500) with a driver that is older than the header. */
static int absent = 3;
static int missing(void) { return absent; }

__attribute__((visibility("hidden"))) void *nereid_cuda_table[COUNT] = {[0 ... COUNT - 1] = (void *)missing};
static const char names[] = NAMES;

__attribute__((visibility("hidden"))) int cuInit(unsigned flags) { (void)flags; return 0; }

/* Loads the driver and initializes it. Returns 0, a CUDA error, or -1 and *why if the library cannot be loaded.
   Not safe for concurrent use. A second call repeats all steps. */
__attribute__((visibility("hidden"))) int nereid_cuda_open(const char **why) {
	*why = NULL;
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (lib == NULL) {
		*why = dlerror();
		absent = 100;
		return -1;
	}
	absent = 500;
	const char *name = names;
	for (int i = 0; i < COUNT; i++) {
		void *p = dlsym(lib, name);
		if (p != NULL) nereid_cuda_table[i] = p;
		while (*name++ != 0) {}
	}
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(lib, "cuInit");
	return init == NULL ? absent : init(0);
}
"""


def main() -> None:
    out = pathlib.Path(sys.argv[1]).absolute()
    mine = hashlib.sha256(pathlib.Path(__file__).read_bytes() + str(out).encode()).hexdigest()
    env = out / "env"
    if env.exists() and f"# {mine}\n" in env.read_text():
        return
    env.unlink(missing_ok=True)
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        sys.exit(f"only Linux on x86_64 is supported, this is {sys.platform} on {platform.machine()}")
    cc = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(cc[0]) is None:
        sys.exit(f"there is no C compiler {cc[0]}")
    include, lib = out / "include", out / "lib"
    for folder in (include, lib):
        folder.mkdir(parents=True, exist_ok=True)
    (include / "cuda.h").write_bytes(header(out))
    names = functions(cc, include)
    archive(cc, lib, names)
    part = env.with_name("env.part")
    # go build does not notice changes in LIBRARY_PATH. An unused variable with the hash makes it link again.
    part.write_text(f"# {mine}\n" + variables(include, lib) + f'tags=cuda ldflags="-X main.cudaSetup={mine[:16]}"\n')
    part.replace(env)
    print(f"cuda: {len(names)} driver functions")


def header(out: pathlib.Path) -> bytes:
    """Downloads the wheel and returns its header. Refuses a wheel with another hash."""
    name, version = WHEEL.split("==")
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--retries", "1", "--no-deps"]
        + ["--only-binary", ":all:", "--platform", "manylinux2014_x86_64", "--dest", str(out), WHEEL],
        check=True,
    )
    wheels = list(out.glob(f"{name.replace('-', '_')}-{version}-*.whl"))
    if len(wheels) != 1:
        sys.exit(f"{WHEEL}: want one wheel in {out}, found {len(wheels)}")
    found = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
    if found != DIGEST:
        wheels[0].unlink()
        sys.exit(f"{wheels[0].name}: sha256 is {found}, want {DIGEST}; refusing it")
    with zipfile.ZipFile(wheels[0]) as z:
        data = z.read(HEADER)
    wheels[0].unlink()
    return data


def functions(cc: list[str], include: pathlib.Path) -> list[str]:
    """Returns the names of the declared functions as the driver exports them: cuMemAlloc_v2, not cuMemAlloc."""
    text = subprocess.run(cc + ["-E", "-P", include / "cuda.h"], check=True, capture_output=True, text=True).stdout
    names = set(re.findall(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(", text)) - {"cuInit"}
    if len(names) < 300:
        sys.exit(f"cuda.h declares only {len(names)} functions, which is too few")
    return sorted(names)


def archive(cc: list[str], lib: pathlib.Path, names: list[str]) -> None:
    source, object_, path = lib / "shim.c", lib / "shim.o", lib / "libcuda.a"
    text = SHIM.replace("COUNT", str(len(names))).replace("NAMES", "\n".join(f'"{n}\\0"' for n in names))
    lines = [".text"]
    for i, name in enumerate(names):
        lines += [f".globl {name}", f".hidden {name}", f".type {name},@function",
                  f"{name}: jmp *nereid_cuda_table+{8 * i}(%rip)", f".size {name},.-{name}"]
    text += "__asm__(\n" + "\n".join(f'"{line}\\n"' for line in lines) + ");\n"
    source.write_text(text)
    subprocess.run(cc + ["-O2", "-fPIC", "-Wall", "-Werror", "-c", source, "-o", object_], check=True)
    path.unlink(missing_ok=True)
    subprocess.run(["ar", "rcs", path, object_], check=True)


def variables(include: pathlib.Path, lib: pathlib.Path) -> str:
    """Returns the shell lines that make the compiler and the linker find the files of this script.

    CPATH and LIBRARY_PATH are variables of the C compiler, so changing them does not rebuild all Go packages. But the
    folders that cu names take precedence over them. If one of these has a CUDA toolkit, the cgo flags for all packages
    are used."""
    if any(os.path.exists(d + "/cuda.h")
           for d in THEIR_INCLUDES) or any(os.path.exists(d + "/libcuda.so") for d in THEIR_LIBRARIES):
        cflags, ldflags = f"${{CGO_CFLAGS:--O2 -g}} -I{include}", f"${{CGO_LDFLAGS:--O2 -g}} -L{lib}"
        return f'export CGO_CFLAGS="{cflags}" CGO_LDFLAGS="{ldflags}"\n'
    return f'export CPATH="{include}${{CPATH:+:$CPATH}}" LIBRARY_PATH="{lib}${{LIBRARY_PATH:+:$LIBRARY_PATH}}"\n'


if __name__ == "__main__":
    main()
