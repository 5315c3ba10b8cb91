package requestlog

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"nereid/engine/infer"
	"nereid/engine/requests"
	"nereid/store"
)

func TestSlowIsAboveTheHoursPercentile(t *testing.T) {
	k, now := New(requests.New(), nil), time.Now()
	slow := func(took time.Duration, o requests.Outcome) bool {
		start := infer.Stamp(time.Hour)
		return k.see(&requests.Record{Model: "m", Version: 1, Outcome: o, Received: start,
			Sent: start + infer.Stamp(took)}, now)
	}
	for i := range fewest {
		if slow(time.Duration(1+i%10)*time.Millisecond, requests.OK) {
			t.Fatalf("request %d is slow, with fewer than %d before it", i, fewest)
		}
	}
	if slow(10*time.Millisecond, requests.OK) {
		t.Error("a request as long as the longest tenth is slow")
	}
	if !slow(20*time.Millisecond, requests.OK) || !slow(20*time.Millisecond, requests.Failed) {
		t.Error("a request twice as long as the others is not slow")
	}
	if slow(time.Second, requests.Refused) {
		t.Error("a refused request is slow")
	}
	now = now.Add(30 * time.Minute)
	for range 300 {
		slow(time.Second, requests.OK)
	}
	if slow(time.Second, requests.OK) {
		t.Error("a request is slow although most were as long")
	}
	now = now.Add(2 * time.Hour)
	if slow(10*time.Second, requests.OK) {
		t.Error("a request is slow by those of more than an hour ago")
	}
	for range fewest {
		slow(time.Second, requests.OK)
	}
	now = now.AddDate(-10, 0, 0)
	if slow(10*time.Second, requests.OK) {
		t.Error("a request is slow by those before the clock was set back")
	}
}

func TestRequestsWithoutAModelAreNotSlow(t *testing.T) {
	l := requests.New()
	k := New(l, nil)
	for range 2 * fewest {
		l.Add(requests.HTTP, nil, "", 200, "", "")
	}
	k.Log().Since(0, func(seq int64, r *requests.Record) {
		if r.Slow {
			t.Errorf("record %d, which reached no model, is slow", seq)
		}
	})
	if k.next != 2*fewest {
		t.Errorf("%d records were seen, want %d", k.next, 2*fewest)
	}
}

func TestAnIdleKeeperWaitsForTheNextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := requests.New()
		rounds, kept := 0, 0
		k := New(l, func(rows []store.Request) bool {
			rounds++
			kept += len(rows)
			return true
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		for want := 1; want <= 2; want++ {
			time.Sleep(time.Hour)
			synctest.Wait()
			idle := rounds
			time.Sleep(time.Hour)
			synctest.Wait()
			if rounds != idle {
				t.Errorf("without requests the keeper looked at them %d times", rounds-idle)
			}
			l.Add(requests.HTTP, nil, "", 400, "", "") // of several, each could wake the keeper again
			time.Sleep(time.Second)
			synctest.Wait()
			if kept != want || rounds-idle > 3 {
				t.Errorf("%d requests are kept after %d rounds, want %d after at most 3", kept, rounds-idle, want)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}
