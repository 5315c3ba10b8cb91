// A library with one operator, Twice of domain test.nereid: y = 2x, in FP32. Built by the tests; CRASH_ON_LOAD and
// CRASH_ON_RUN make it end its process.
#include <stdlib.h>

#include "onnxruntime_c_api.h"

static const OrtApi *api;

static OrtStatus *create(const OrtCustomOp *op, const OrtApi *a, const OrtKernelInfo *info, void **kernel) {
  *kernel = (void *)op;
  return NULL;
}
static const char *name(const OrtCustomOp *op) { return "Twice"; }
static const char *provider(const OrtCustomOp *op) { return NULL; }
static ONNXTensorElementDataType type(const OrtCustomOp *op, size_t i) { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
static size_t one(const OrtCustomOp *op) { return 1; }
static void destroy(void *kernel) {}
static OrtCustomOpInputOutputCharacteristic characteristic(const OrtCustomOp *op, size_t i) { return INPUT_OUTPUT_REQUIRED; }
static OrtMemType memory(const OrtCustomOp *op, size_t i) { return OrtMemTypeDefault; }
static int zero(const OrtCustomOp *op) { return 0; }
static int version(const OrtCustomOp *op) { return 1; }
static int versions(const OrtCustomOp *op) { return 1000; }

static OrtStatus *compute(void *kernel, OrtKernelContext *c) {
  const OrtValue *x;
  OrtValue *y;
  const float *in;
  float *out;
  const int64_t *shape;
  size_t rank, n = 1;
  ONNXTensorElementDataType t;
  OrtStatus *s;
#ifdef CRASH_ON_RUN
  abort();
#endif
  if ((s = api->KernelContext_GetInput(c, 0, &x))) return s;
  if ((s = api->GetTensorElementTypeAndShapeDataReference(x, &t, &shape, &rank))) return s;
  for (size_t i = 0; i < rank; i++) n *= shape[i];
  if ((s = api->KernelContext_GetOutput(c, 0, shape, rank, &y))) return s;
  if ((s = api->GetTensorMutableData((OrtValue *)x, (void **)&in))) return s;
  if ((s = api->GetTensorMutableData(y, (void **)&out))) return s;
  for (size_t i = 0; i < n; i++) out[i] = 2 * in[i];
  return NULL;
}

static OrtCustomOp twice = {
    .version = ORT_API_VERSION,
    .GetName = name,
    .GetExecutionProviderType = provider,
    .GetInputType = type,
    .GetInputTypeCount = one,
    .GetOutputType = type,
    .GetOutputTypeCount = one,
    .KernelDestroy = destroy,
    .GetInputCharacteristic = characteristic,
    .GetOutputCharacteristic = characteristic,
    .GetInputMemoryType = memory,
    .GetVariadicInputMinArity = zero,
    .GetVariadicInputHomogeneity = zero,
    .GetVariadicOutputMinArity = zero,
    .GetVariadicOutputHomogeneity = zero,
    .CreateKernelV2 = create,
    .KernelComputeV2 = compute,
    .GetStartVersion = version,
    .GetEndVersion = versions,
};

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
  OrtCustomOpDomain *domain;
  OrtStatus *s;
#ifdef CRASH_ON_LOAD
  abort();
#endif
  api = base->GetApi(ORT_API_VERSION);
  if ((s = api->CreateCustomOpDomain("test.nereid", &domain))) return s;
  if ((s = api->CustomOpDomain_Add(domain, &twice))) return s;
  return api->AddCustomOpDomain(options, domain);
}
