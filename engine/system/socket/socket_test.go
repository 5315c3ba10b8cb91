package socket_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"nereid/engine/system/socket"
)

// pair returns both ends of a TCP connection. New made the first one.
func pair(t testing.TB) (*socket.Conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	there, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	here, ok := socket.New(accepted).(*socket.Conn)
	if !ok {
		t.Skip("this system has package net's connections only")
	}
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	return here, there.(*net.TCPConn)
}

// Data of all sizes around the limit arrives in both directions, also at readers so slow that the buffers are full.
func TestTransfer(t *testing.T) {
	here, there := pair(t)
	var want bytes.Buffer
	for _, n := range []int{1, 0, 100, 4096, 64<<10 - 1, 64 << 10, 64<<10 + 1, 5 << 20, 3} {
		for i := range n {
			want.WriteByte(byte(i*31 + n))
		}
	}
	sizes := []int{1, 0, 100, 4096, 64<<10 - 1, 64 << 10, 64<<10 + 1, 5 << 20, 3}
	var wg sync.WaitGroup
	write := func(c net.Conn, closeWrite func() error) {
		left := want.Bytes()
		for _, n := range sizes {
			if k, err := c.Write(left[:n]); k != n || err != nil {
				t.Errorf("Write of %d bytes = %d, %v", n, k, err)
			}
			left = left[n:]
		}
		if err := closeWrite(); err != nil {
			t.Error(err)
		}
	}
	wg.Go(func() { write(here, here.CloseWrite) })
	wg.Go(func() { write(there, there.CloseWrite) })
	read := func(c net.Conn) {
		var got bytes.Buffer
		b := make([]byte, 8000)
		for {
			n, err := c.Read(b)
			got.Write(b[:n])
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%d bytes came that differ from the %d that were sent", got.Len(), want.Len())
		}
	}
	wg.Go(func() { read(here) })
	wg.Go(func() { read(there) })
	wg.Wait()
}

func TestTryWriteDoesNotWait(t *testing.T) {
	here, there := pair(t)
	b := make([]byte, 64<<10)
	sent := 0
	for {
		n, err := here.TryWrite(b)
		if err != nil {
			t.Fatal(err)
		}
		if sent += n; n < len(b) {
			break // the buffers are full
		}
	}
	if n, err := here.TryWrite(b); n != 0 || err != nil {
		t.Errorf("TryWrite to a full socket = %d, %v; want 0, nil", n, err)
	}
	if err := here.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, there); int(n) != sent || err != nil {
		t.Errorf("%d bytes came, %v; want the %d that TryWrite took", n, err, sent)
	}
}

func TestErrors(t *testing.T) {
	b := make([]byte, 10)
	for _, tt := range []struct {
		name string
		do   func(here *socket.Conn, there *net.TCPConn) error
		op   string
		want error
	}{
		{"end", func(here *socket.Conn, there *net.TCPConn) error {
			_ = there.Close()
			_, err := here.Read(b)
			return err
		}, "", io.EOF},
		{"deadline while reading", func(here *socket.Conn, _ *net.TCPConn) error {
			_ = here.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := here.Read(b)
			return err
		}, "read", os.ErrDeadlineExceeded},
		{"deadline passed while writing", func(here *socket.Conn, _ *net.TCPConn) error {
			_ = here.SetWriteDeadline(time.Unix(1, 0))
			_, err := here.Write(b)
			return err
		}, "write", os.ErrDeadlineExceeded},
		{"closed while reading", func(here *socket.Conn, _ *net.TCPConn) error {
			go here.Close()
			_, err := here.Read(b)
			return err
		}, "read", net.ErrClosed},
		{"closed before", func(here *socket.Conn, _ *net.TCPConn) error {
			_ = here.Close()
			_, err := here.TryWrite(b)
			return err
		}, "write", net.ErrClosed},
		{"reset", func(here *socket.Conn, there *net.TCPConn) error {
			_ = there.SetLinger(0)
			_ = there.Close()
			_, err := here.Read(b)
			return err
		}, "read", syscall.ECONNRESET},
	} {
		t.Run(tt.name, func(t *testing.T) {
			here, there := pair(t)
			err := tt.do(here, there)
			var op *net.OpError
			if !errors.Is(err, tt.want) || tt.op != "" && (!errors.As(err, &op) || op.Op != tt.op) {
				t.Errorf("error %v, want %v of %q", err, tt.want, tt.op)
			}
		})
	}
}

func TestWithoutDescriptor(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	if got := socket.New(a); got != a {
		t.Errorf("New(pipe) = %T, want the pipe", got)
	}
	_ = a.Close()
}

func TestNoAllocation(t *testing.T) {
	here, there := pair(t)
	b, c := make([]byte, 100), make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		_, _ = here.Write(b)
		_, _ = io.ReadFull(there, c)
		_, _ = there.Write(b)
		_, _ = io.ReadFull(here, c)
	}); n > 0 {
		t.Errorf("%v allocations for a write and a read", n)
	}
}
