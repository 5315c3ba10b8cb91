// Package alerts watches what the history records, and raises an alert when a model does worse than it should.
//
// Rules hold for each version of a model over the last minute. An alert needs evidence that a share of the requests is
// above the limit: the lower bound of its Wilson interval must be, not only the share itself. An alert ends when the
// share has been at or below the limit for a minute. So noise near a limit neither raises nor repeats an alert.
//
//   - failures: the share of failed requests, without those that clients cancelled.
//   - p99: a 99th percentile is above a limit if more than 1 % of the requests are slower than the limit.
//   - queue: the median of a minute's queue lengths.
//   - memory: what the model takes, in three readings in a row.
//   - refused: the share of requests that reached no model; of the server.
//   - restarts: how often processes of the version ended within ten minutes.
//
// A limit that the user has not set follows from the model's recorded past: see baseline.
//
// After each load or reload the version is compared with what served before: see compare. One cause raises one alert:
// while an alert about a new version is open, its failures, latency and queue raise no others.
//
// Sources: E. B. Wilson, Probable inference, the law of succession, and statistical inference (1927), for the interval;
// J. L. Hodges and E. L. Lehmann, Estimates of location based on rank tests (1963), for the ratio of two versions;
// B. W. Schmeiser, Batch size effects in the analysis of simulation output (1982), for values that are not independent.
//
// Goroutines: Run is the only one that decides, so that neither requests nor the recorder wait. Webhook.Run sends.
package alerts
