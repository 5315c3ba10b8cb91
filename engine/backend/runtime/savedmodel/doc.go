// Package savedmodel reads what TensorFlow's SavedModels say of themselves: the signatures of their graphs, by tag. It
// needs no TensorFlow and does not look at graphs and weights, whatever their size. No goroutines.
package savedmodel
