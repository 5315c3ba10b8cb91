package stats

import (
	"testing"

	"nereid/engine/infer"
)

func TestReportsReplaceCounts_D076(t *testing.T) {
	v := NewRegistry(Detail{}).Version("m", 1)
	v.SetReports(true, true)
	s := &served{v: v}
	s.run(nil, 2)
	end := infer.Now()
	report := func(kind infer.ReportKind, n uint64) {
		v.Reported(infer.Report{Kind: kind, N: n, Began: end - 10, Input: end - 9, Output: end - 3, Ended: end})
	}
	report(infer.Executed, 7)
	report(infer.ResponseSucceeded, 0)
	report(infer.ResponseEmpty, 1)
	report(infer.ResponseFailed, 1)
	report(infer.ResponseCancelled, 2)
	report(infer.ResponseSucceeded, MaxResponses) // dropped
	report(infer.ResponseSucceeded, 1<<63)
	report(99, 0) // no kind
	var got Snapshot
	v.Snapshot(&got)
	if got.Success.Count != 1 || got.Inferences != 2 || got.Executions != 1 {
		t.Errorf("%d requests, %d inferences, %d executions; want 1, 2, 1", got.Success.Count, got.Inferences,
			got.Executions)
	}
	want := Batch{Size: 7, Input: Total{1, 1}, Infer: Total{1, 6}, Output: Total{1, 3}}
	if len(got.Batches) != 1 || got.Batches[0] != want {
		t.Errorf("executions %+v, want %+v", got.Batches, want)
	}
	for i, want := range []Response{
		{Infer: Total{1, 6}, Output: Total{1, 3}, Success: Total{1, 9}},
		{Infer: Total{2, 12}, Output: Total{1, 3}, Empty: Total{1, 9}, Fail: Total{1, 9}},
		{Cancel: Total{1, 9}},
	} {
		if got.Responses[i] != want {
			t.Errorf("response %d: %+v, want %+v", i, got.Responses[i], want)
		}
	}
}

// Times that cannot be right, and any number of batch sizes, do no harm.
func TestReportsThatCannotBeRight_D076(t *testing.T) {
	v := NewRegistry(Detail{}).Version("m", 1)
	v.SetReports(true, false)
	now := infer.Now()
	for i, p := range []infer.Report{
		{Began: 4, Input: 3, Output: 2, Ended: 1}, {Began: now, Input: now, Output: now, Ended: 1 << 62}, {},
	} {
		p.Kind, p.N = infer.Executed, uint64(i)
		v.Reported(p)
	}
	for i := range uint64(3 * maxSizes) {
		v.Reported(infer.Report{Kind: infer.Executed, N: i})
	}
	var got Snapshot
	v.Snapshot(&got)
	if len(got.Batches) != maxSizes || got.Executions != 3+3*maxSizes {
		t.Errorf("%d batch sizes, %d executions", len(got.Batches), got.Executions)
	}
	for _, b := range got.Batches {
		if b.Input.Ns+b.Infer.Ns+b.Output.Ns != 0 {
			t.Errorf("batch size %d took %+v", b.Size, b)
		}
	}
}
