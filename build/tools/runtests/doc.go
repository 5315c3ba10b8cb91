// Command runtests runs the stages of "make test" one after the other, counts the tests in each, and ends with one
// line: "N passed, N failed" and, where there were any, ", N skipped" and ", N repeats". A skipped test is never
// counted as passed. A repeat is what a test did again for a fault of a tool or of the machine; the test says which.
//
// The output of a stage goes to .cache/test-logs/STAGE.log. Of a failing stage, the output of the failing tests and the
// end of the log are printed. The names and results of a stage's tests go to .cache/test-logs/results/STAGE.tsv, which
// the features check reads. The exit status is 0 only if every stage ran, passed, and counted at least one test.
package main
