// Command runtests runs the stages of "make test" one after the other, counts the tests in each, and ends with one
// line: "N passed, N failed" and, where there were any, ", N skipped". A skipped test is never counted as passed.
//
// Each stage's whole output goes to .cache/test-logs/STAGE.log; of a failing stage the failing tests' output and the
// end of the log are printed. The names of all tests and what became of them go to .cache/test-logs/names.tsv,
// which the rows check reads. The exit status is 0 only if every stage ran, passed, and counted at least one test.
package main
