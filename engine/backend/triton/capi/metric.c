// Metrics that a backend or a program makes. The server keeps their values.

#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "object.h"

struct TRITONSERVER_MetricFamily {
  uint64_t number;  // Go's
  int kind;
};

struct TRITONSERVER_Metric {
  uint64_t number;  // Go's
  int kind;
};

struct TRITONSERVER_MetricArgs {
  double *buckets;
  uint64_t bucket_count;
  int kind;
};

typedef TRITONSERVER_MetricFamily family;
typedef TRITONSERVER_Metric metric;
typedef TRITONSERVER_MetricArgs metric_args;

error TRITONSERVER_MetricFamilyNew(family **f, int kind, const char *name, const char *description) {
  NEED(name, "name of the metric family");
  NEED(description, "description of the metric family");
  if (kind < METRIC_COUNTER || kind > METRIC_HISTOGRAM)
    return new_error(CODE_INVALID_ARG, "unknown kind %d of the metric family %s", kind, name);
  uint64_t number = 0;
  error e = host_family_new(kind, name, description, &number);
  if (e != NULL) return e;
  *f = must_have(calloc(1, sizeof **f));
  (*f)->number = number;
  (*f)->kind = kind;
  return NULL;
}

error TRITONSERVER_MetricFamilyDelete(family *f) {
  if (f == NULL) return NULL;
  error e = host_metric_delete(f->number, true);
  free(f);
  return e;
}

error TRITONSERVER_GetMetricFamilyKind(family *f, int *kind) {
  NEED(f, "metric family");
  *kind = f->kind;
  return NULL;
}

error TRITONSERVER_MetricArgsNew(metric_args **a) {
  *a = must_have(calloc(1, sizeof **a));
  (*a)->kind = -1;
  return NULL;
}

error TRITONSERVER_MetricArgsSetHistogram(metric_args *a, const double *buckets, uint64_t count) {
  NEED(a, "metric arguments");
  if (count > 0) NEED(buckets, "buckets");
  a->buckets = must_have(realloc(a->buckets, (count + 1) * sizeof *buckets));
  if (count > 0) memcpy(a->buckets, buckets, count * sizeof *buckets);
  a->bucket_count = count;
  a->kind = METRIC_HISTOGRAM;
  return NULL;
}

error TRITONSERVER_MetricArgsDelete(metric_args *a) {
  if (a != NULL) free(a->buckets);
  free(a);
  return NULL;
}

error TRITONSERVER_MetricNewWithArgs(
    metric **m, family *f, const TRITONSERVER_Parameter **labels, uint64_t count, const metric_args *a) {
  NEED(f, "metric family");
  if (count > 0) NEED(labels, "labels");
  if (f->kind == METRIC_HISTOGRAM && (a == NULL || a->kind != METRIC_HISTOGRAM))
    return new_error(CODE_INVALID_ARG, "a histogram needs its buckets; set them by TRITONSERVER_MetricArgsSetHistogram");
  for (uint64_t i = 0; i < count; i++)
    if (labels[i] == NULL || labels[i]->type != PARAMETER_STRING)
      return new_error(CODE_INVALID_ARG, "Parameter labels must be strings");
  uint64_t number = 0;
  error e = host_metric_new(f->number, labels, count, a == NULL ? NULL : a->buckets, a == NULL ? 0 : a->bucket_count,
      &number);
  if (e != NULL) return e;
  *m = must_have(calloc(1, sizeof **m));
  (*m)->number = number;
  (*m)->kind = f->kind;
  return NULL;
}

error TRITONSERVER_MetricNew(metric **m, family *f, const TRITONSERVER_Parameter **labels, uint64_t count) {
  return TRITONSERVER_MetricNewWithArgs(m, f, labels, count, NULL);
}

error TRITONSERVER_MetricDelete(metric *m) {
  if (m == NULL) return NULL;
  error e = host_metric_delete(m->number, false);
  free(m);
  return e;
}

error TRITONSERVER_MetricValue(metric *m, double *value) {
  NEED(m, "metric");
  if (m->kind == METRIC_HISTOGRAM)
    return new_error(CODE_UNSUPPORTED, "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Value");
  return host_metric_value(m->number, value);
}

error TRITONSERVER_MetricIncrement(metric *m, double value) {
  NEED(m, "metric");
  if (m->kind == METRIC_HISTOGRAM)
    return new_error(CODE_UNSUPPORTED, "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Increment");
  if (m->kind == METRIC_COUNTER && value < 0)
    return new_error(CODE_INVALID_ARG, "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by "
                                       "non-negative values.");
  host_metric_change(m->number, 1, value);
  return NULL;
}

error TRITONSERVER_MetricSet(metric *m, double value) {
  NEED(m, "metric");
  if (m->kind != METRIC_GAUGE)
    return new_error(CODE_UNSUPPORTED, "only metrics of kind TRITONSERVER_METRIC_KIND_GAUGE support Set");
  host_metric_change(m->number, 2, value);
  return NULL;
}

error TRITONSERVER_MetricObserve(metric *m, double value) {
  NEED(m, "metric");
  if (m->kind != METRIC_HISTOGRAM)
    return new_error(CODE_UNSUPPORTED, "only metrics of kind TRITONSERVER_METRIC_KIND_HISTOGRAM support Observe");
  host_metric_change(m->number, 3, value);
  return NULL;
}

error TRITONSERVER_GetMetricKind(metric *m, int *kind) {
  NEED(m, "metric");
  *kind = m->kind;
  return NULL;
}
