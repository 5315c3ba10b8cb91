package tensor

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"nereid/engine/status"
)

func TestElements(t *testing.T) {
	for _, tt := range []struct {
		name  string
		shape []int64
		want  int64
		err   bool
	}{
		{name: "scalar", want: 1},
		{name: "matrix", shape: []int64{2, 3}, want: 6},
		{name: "zero dimension", shape: []int64{4, 0, 3}, want: 0},
		{name: "negative", shape: []int64{1, -1}, err: true},
		{name: "negative behind zero", shape: []int64{0, -1}, err: true},
		{name: "wraps at 2^64", shape: []int64{1 << 33, 1 << 33}, err: true},
		{name: "wraps behind zero", shape: []int64{0, 1 << 33, 1 << 33}, err: true},
		{name: "over int64", shape: []int64{math.MaxInt64, 2}, err: true},
		{name: "largest", shape: []int64{math.MaxInt64, 1}, want: math.MaxInt64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Elements(tt.shape)
			if got != tt.want || (err != nil) != tt.err {
				t.Errorf("Elements(%v) = %d, %v; want %d, error %v", tt.shape, got, err, tt.want, tt.err)
			}
		})
	}
}

func TestByteSize(t *testing.T) {
	if n, err := ByteSize(FP32, []int64{2, 8}); n != 64 || err != nil {
		t.Errorf("ByteSize(FP32, [2,8]) = %d, %v; want 64", n, err)
	}
	if n, err := ByteSize(Bytes, []int64{2}); n != -1 || err != nil {
		t.Errorf("ByteSize(BYTES, [2]) = %d, %v; want -1", n, err)
	}
	if _, err := ByteSize(FP64, []int64{1 << 61}); err == nil {
		t.Errorf("ByteSize(FP64, [2^61]) passes, want an error")
	}
}

func TestDataTypeNames(t *testing.T) {
	for d := Bool; d < numDataTypes; d++ {
		if got := ParseDataType(d.String()); got != d {
			t.Errorf("ParseDataType(%q) = %v, want %v", d.String(), got, d)
		}
	}
	if got := ParseDataType("FP8"); got != Invalid {
		t.Errorf("ParseDataType(FP8) = %v, want Invalid", got)
	}
}

func TestJoinShapes(t *testing.T) {
	for _, tt := range []struct{ a, b, want []int64 }{
		{[]int64{2, 3}, []int64{4, 3}, []int64{6, 3}},
		{[]int64{1}, []int64{1}, []int64{2}},
		{[]int64{2, 3}, []int64{2, 4}, []int64{14}},
		{[]int64{14}, []int64{2, 4}, []int64{22}},
		{nil, nil, []int64{2}},
	} {
		if got := JoinShapes(tt.a, tt.b); !slices.Equal(got, tt.want) {
			t.Errorf("JoinShapes(%v, %v) = %v; want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestBytesElements(t *testing.T) {
	var b []byte
	want := []string{"", "a\x00b", "\xff"}
	for _, s := range want {
		b = AppendBytesElement(b, s)
	}
	if err := CheckBytes(b, 3); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range BytesElements(b) {
		got = append(got, string(e))
	}
	if !slices.Equal(got, want) {
		t.Errorf("BytesElements = %q, want %q", got, want)
	}
	if n, err := SplitBytes(b, 2); err != nil || n != 4+4+3 {
		t.Errorf("SplitBytes(2) = %d, %v; want 11", n, err)
	}
}

func FuzzCheckBytes(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0}, int64(1))
	f.Add([]byte{1, 0}, int64(1))
	f.Add([]byte{255, 255, 255, 255, 1}, int64(2))
	f.Fuzz(func(t *testing.T, b []byte, n int64) {
		if n < 0 || n > 1<<20 {
			return
		}
		err := CheckBytes(b, n)
		if err != nil {
			if status.CodeOf(err) != status.InvalidArg {
				t.Fatalf("code %v", status.CodeOf(err))
			}
			return
		}
		count, size := int64(0), 0
		for _, e := range BytesElements(b) {
			count++
			size += 4 + len(e)
		}
		if count != n || size != len(b) {
			t.Fatalf("accepted %d elements of %d bytes, found %d of %d", n, len(b), count, size)
		}
		if at, err := SplitBytes(b, n); err != nil || at != len(b) {
			t.Fatalf("SplitBytes = %d, %v; want %d", at, err, len(b))
		}
	})
}

func TestBufferIsFreedOnce(t *testing.T) {
	freed := 0
	b := NewBuffer(make([]byte, 4), func(*Buffer) { freed++ })
	b.Retain()
	b.Release()
	if freed != 0 {
		t.Fatal("freed while a reference is held")
	}
	b.Release()
	if freed != 1 {
		t.Fatalf("freed %d times, want 1", freed)
	}
	defer func() {
		if recover() == nil {
			t.Error("Release of a released buffer does not panic")
		}
	}()
	b.Release()
}

func TestRenew(t *testing.T) {
	freed := 0
	b := NewBuffer(make([]byte, 4), func(*Buffer) { freed++ })
	b.Release()
	b.Renew([]byte{7})
	if b.Bytes()[0] != 7 {
		t.Error("the renewed buffer has its old memory")
	}
	b.Release()
	if freed != 2 {
		t.Errorf("freed %d times, want 2", freed)
	}
	defer func() {
		if recover() == nil {
			t.Error("Renew of a buffer in use does not panic")
		}
	}()
	b.Renew(nil)
	b.Renew(nil)
}

// The memory of large buffers is returned to the operating system soon after their release, not at a later collection.
func TestLargeBuffersAreReturnedToTheSystem(t *testing.T) {
	forced := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	synctest.Test(t, func(t *testing.T) {
		var p Pool
		release := func(total int) {
			var all []*Buffer
			for ; total > 0; total -= 65 << 20 {
				all = append(all, p.Get(65<<20))
			}
			for _, b := range all {
				b.Release()
			}
			time.Sleep(returnLatest + 2*returnDelay)
			synctest.Wait()
		}
		before := forced()
		p.Get(returnBytes / 2).Release()
		time.Sleep(returnLatest + 2*returnDelay)
		if n := forced() - before; n != 0 {
			t.Errorf("%d collections for little", n)
		}
		for range 2 {
			before = forced()
			release(returnBytes)
			if n := forced() - before; n != 2 {
				t.Errorf("%d collections after %d bytes were released, want two", n,
					returnBytes)
			}
		}
	})
}

func TestPoolSizes(t *testing.T) {
	var p Pool
	for _, n := range []int{0, 1, 512, 513, 1 << 20, 1<<26 + 1} {
		b := p.Get(n)
		if len(b.Bytes()) != n {
			t.Errorf("Get(%d) has %d bytes", n, len(b.Bytes()))
		}
		b.Release()
	}
}

func TestCopy(t *testing.T) {
	sizes := []int{0, 1, copyPiece - 1, copyPiece, copyPiece + 1, 1 << 20, 3*copyPiece + 17, copyMost, copyMost + 1}
	for _, n := range sizes {
		src, dst := make([]byte, n), make([]byte, n+8)
		for i := range src {
			src[i] = byte(i>>8 ^ i*7)
		}
		if got := Copy(dst, src); got != n || !bytes.Equal(dst[:n], src) || !bytes.Equal(dst[n:], make([]byte, 8)) {
			t.Errorf("Copy of %d bytes = %d, equal %v", n, got, bytes.Equal(dst[:n], src))
		}
		if got := Copy(dst[:n/2], src); got != n/2 {
			t.Errorf("Copy of %d bytes into %d = %d", n, n/2, got)
		}
	}
}

func TestBudgetCountsBuffersWhileTheyAreInUse(t *testing.T) {
	p := Pool{Budget: NewBudget(1 << 20)}
	big := p.Get(700_000) // a buffer of 1 MiB
	if n := p.Budget.Used(); n != 1<<20 {
		t.Errorf("%d bytes are taken, want %d", n, 1<<20)
	}
	if _, err := p.Try(65<<10, 0); !errors.Is(err, ErrNoRoom) || status.CodeOf(err) != status.Unavailable {
		t.Errorf("a second large buffer: %v", err)
	}
	for _, n := range []int{2048, 40_000} { // not counted; within the quarter for small requests
		small, err := p.Try(n, 0)
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		small.Release()
	}
	if err := p.Budget.Check(2 << 20); !errors.Is(err, ErrNoRoom) {
		t.Errorf("more than the limit: %v", err)
	}
	big.Release()
	huge := p.Get(70 << 20) // a buffer that belongs to no class
	huge.Release()
	if n := p.Budget.Used(); n != 0 {
		t.Errorf("%d bytes are taken at the end", n)
	}
}

func TestTakeWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100 << 10)
		b.Add(100 << 10)
		if err := b.Take(90<<10, time.Second); !errors.Is(err, ErrNoRoom) {
			t.Errorf("without room: %v", err)
		}
		time.AfterFunc(500*time.Millisecond, func() { b.Give(100 << 10) })
		if err := b.Take(90<<10, time.Second); err != nil || b.Used() != 90<<10 {
			t.Errorf("with room after half a second: %v, %d bytes taken", err, b.Used())
		}
	})
}

func TestRatio(t *testing.T) {
	for _, tt := range []struct {
		plain, compressed int64
		refused           bool
	}{{16 << 20, 16 << 10, false}, {16<<20 + 1, 16 << 10, true}, {40 << 20, 1 << 20, false}} {
		if err := CheckRatio(tt.plain, tt.compressed); (err != nil) != tt.refused {
			t.Errorf("%d bytes of %d: %v", tt.plain, tt.compressed, err)
		}
	}
}

// A request that does not fit takes no memory from others while it is refused.
func TestBudgetRefusalsDoNotDisturbOthers_A25(t *testing.T) {
	const limit = 1 << 20
	b := NewBudget(limit)
	b.Add(1)
	refused := make(chan struct{})
	go func() {
		defer close(refused)
		for range 2_000_000 {
			_ = b.try(limit) // never fits
		}
	}()
	for {
		select {
		case <-refused:
			if n := b.Used(); n != 1 {
				t.Errorf("%d bytes are in use, want 1", n)
			}
			return
		default:
		}
		if !b.try(limit / 2) {
			t.Fatal("there is room, but it was refused")
		}
		b.Give(limit / 2)
	}
}
