/* A libnvidia-ml.so.1 for tests on machines without a GPU: FAKE_GPUS cards (2) of 1 GiB. What a card's memory does, tests
   write into FAKE_GPU_FOLDER/gpuN: "used BYTES", and "process PID BYTES" for each process.

   cc -shared -fPIC -o libnvidia-ml.so.1 nvml.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7 };
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci;
typedef struct { unsigned pid; unsigned long long used; unsigned instance, compute; } process;

static unsigned cards(void) { const char *n = getenv("FAKE_GPUS"); return n ? atoi(n) : 2; }
static unsigned long number(void *d) { return (unsigned long)d - 1; }

static FILE *state(void *d) {
	char p[4096];
	const char *folder = getenv("FAKE_GPU_FOLDER");
	snprintf(p, sizeof p, "%s/gpu%lu", folder ? folder : "/tmp", number(d));
	return fopen(p, "re");
}

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int r) { return r == NOT_SUPPORTED ? "Not Supported" : r == SUCCESS ? "Success" : "Error"; }
int nvmlSystemGetDriverVersion(char *to, unsigned n) { snprintf(to, n, "575.00"); return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = cards(); return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(i + 1ul); return i < cards() ? SUCCESS : INVALID_ARGUMENT; }
int nvmlDeviceGetUUID(void *d, char *to, unsigned n) { snprintf(to, n, "GPU-00000000-0000-0000-0000-%012lu", number(d)); return SUCCESS; }
int nvmlDeviceGetName(void *d, char *to, unsigned n) { snprintf(to, n, "Fake GPU %lu", number(d)); return SUCCESS; }
int nvmlDeviceGetCudaComputeCapability(void *d, int *major, int *minor) { *major = 8, *minor = 6; return SUCCESS; }

/* The driver reserves 64 MiB. The older function counts them as used. */
int nvmlDeviceGetMemoryInfo_v2(void *d, memory_v2 *m) {
	char line[256];
	*m = (memory_v2){.version = m->version, .total = 1ull << 30, .reserved = 64ull << 20};
	FILE *f = state(d);
	while (f != NULL && fgets(line, sizeof line, f) != NULL) sscanf(line, "used %llu", &m->used);
	if (f != NULL) fclose(f);
	m->free = m->total - m->reserved - m->used;
	return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *d, memory *m) {
	memory_v2 all = {0};
	int r = nvmlDeviceGetMemoryInfo_v2(d, &all);
	*m = (memory){.total = all.total, .free = all.free, .used = all.used + all.reserved};
	return r;
}

int nvmlDeviceGetPciInfo_v3(void *d, pci *p) {
	memset(p, 0, sizeof *p);
	snprintf(p->bus_id, sizeof p->bus_id, "00000000:%02lX:00.0", number(d) + 1);
	return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, process *list) {
	char line[256];
	unsigned room = *n;
	*n = 0;
	FILE *f = state(d);
	while (f != NULL && fgets(line, sizeof line, f) != NULL) {
		process p = {0};
		if (sscanf(line, "process %u %llu", &p.pid, &p.used) != 2) continue;
		if (*n < room) list[*n] = p;
		++*n;
	}
	if (f != NULL) fclose(f);
	return *n > room ? INSUFFICIENT_SIZE : SUCCESS;
}

typedef struct { unsigned gpu, memory; } utilization;

int nvmlDeviceGetUtilizationRates(void *d, utilization *to) { *to = (utilization){37, 0}; return SUCCESS; }
int nvmlDeviceGetPowerUsage(void *d, unsigned *milliwatts) { *milliwatts = 58954; return SUCCESS; }
int nvmlDeviceGetPowerManagementLimit(void *d, unsigned *milliwatts) { *milliwatts = 300000; return SUCCESS; }

int nvmlDeviceGetTotalEnergyConsumption(void *d, unsigned long long *millijoules) {
	*millijoules = 2500;
	return SUCCESS;
}

int nvmlDeviceGetTemperature(void *d, int sensor, void *to) { return NOT_SUPPORTED; }
