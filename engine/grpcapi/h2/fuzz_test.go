package h2

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"reflect"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"nereid/engine/tensor"
)

// FuzzConnection sends arbitrary bytes after a valid preface. The server must not panic, and the connection must end.
func FuzzConnection(f *testing.F) {
	var b bytes.Buffer
	fr := http2.NewFramer(&b, nil)
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, h := range []string{":method", "POST", ":scheme", "http", ":path", "/t.T/Echo", "content-type",
		"application/grpc"} {
		_ = enc.WriteField(hpack.HeaderField{Name: h, Value: h})
	}
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true,
		PadLength: 3})
	_ = fr.WriteDataPadded(1, true, []byte{0, 0, 0, 0, 2, 7, 7}, []byte{0, 0})
	_ = fr.WriteWindowUpdate(0, 100)
	_ = fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 3},
		http2.Setting{ID: http2.SettingHeaderTableSize})
	_ = fr.WritePing(false, [8]byte{1})
	_ = fr.WriteRSTStream(1, http2.ErrCodeCancel)
	_ = fr.WriteGoAway(0, http2.ErrCodeNo, nil)
	f.Add(b.Bytes())
	f.Add([]byte{0, 0, 1, 0, 9, 0, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := New(Options{Codec: rawCodec{}, ConnectionTimeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		here, there := net.Pipe()
		s.start(there)
		go func() {
			buf := make([]byte, 4096)
			for {
				if _, err := here.Read(buf); err != nil {
					return
				}
			}
		}()
		_ = here.SetWriteDeadline(time.Now().Add(time.Minute))
		_, _ = here.Write([]byte(http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
		_, _ = here.Write(b)
		_ = here.Close()
		s.Stop()
		if conns, calls := s.counts(); conns != 0 || calls != 0 {
			t.Errorf("%d connections and %d calls are left", conns, calls)
		}
	})
}

// FuzzHeaderBlocks checks that a reader which caches blocks returns the same as one that does not.
func FuzzHeaderBlocks(f *testing.F) {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	one := func(fields ...string) []byte {
		block.Reset()
		for i := 0; i < len(fields); i += 2 {
			_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		return bytes.Clone(block.Bytes())
	}
	call := []string{":method", "POST", ":scheme", "http", ":path", "/t.T/Echo", "content-type", "application/grpc",
		"x-bin", "AAE"}
	first, second, third := one(call...), one(call...), one(append(call, "grpc-timeout", "1S")...)
	f.Add(first, second, third, second)
	f.Add(first, second, []byte{0x20}, second) // the table is emptied
	f.Add([]byte{0xff, 0x80}, []byte{0x82}, []byte{0x3f, 0xe1, 0x1f}, []byte{0xbe})
	s, err := New(Options{Codec: rawCodec{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, a, b, c, d []byte) {
		cn := newConn(s, nil)
		cn.ctx = context.Background()
		remembers, forgets := newHeaderReader(cn), newHeaderReader(cn)
		for _, block := range [][]byte{a, b, c, d, d} {
			got, err := remembers.read(block)
			forgets.known = [len(forgets.known)]knownBlock{}
			want, wantErr := forgets.read(block)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("read(%x) = %v, without memory %v", block, err, wantErr)
			}
			if err != nil {
				return
			}
			got2, want2 := *got, *want
			if !reflect.DeepEqual(got2.refusal.Proto(), want2.refusal.Proto()) {
				t.Fatalf("read(%x) refuses with %v, without memory %v", block, got2.refusal, want2.refusal)
			}
			got2.refusal, want2.refusal = nil, nil
			if !reflect.DeepEqual(got2, want2) {
				t.Fatalf("read(%x) = %+v, without memory %+v", block, got2, want2)
			}
		}
	})
}

// FuzzMessages checks that messages do not depend on how their bytes are split.
func FuzzMessages(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 3, 1, 2, 3, 1, 0, 0, 0, 0, 0, 0, 0}, uint8(2))
	f.Add([]byte{0, 0, 0x7f, 0, 0, 1}, uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		const limit = 1 << 16
		var want [][]byte
		tooLarge := false
		for rest := b; len(rest) >= prefixSize; {
			n := int(binary.BigEndian.Uint32(rest[1:]))
			if tooLarge = n > limit; tooLarge || len(rest) < prefixSize+n {
				break
			}
			want, rest = append(want, rest[prefixSize:prefixSize+n]), rest[prefixSize+n:]
		}
		var pool tensor.Pool
		var a assembler
		var got [][]byte
		for chunk := range slices.Chunk(b, max(int(step), 1)) {
			for len(chunk) > 0 {
				rest, done, err := a.feed(chunk, limit, &pool, nil)
				if err != nil {
					if !tooLarge {
						t.Fatalf("feed refuses %x: %v", b, err)
					}
					tooLarge = false
					a = assembler{have: prefixSize, size: 1 << 30, body: pool.Get(1)} // nothing more is taken
					got = append(got, nil)
					break
				}
				if chunk = rest; done {
					got = append(got, bytes.Clone(a.take().Bytes()))
				}
			}
			if len(got) > len(want) {
				got = got[:len(want)]
				break
			}
		}
		if !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("%x in steps of %d: messages %x, want %x", b, step, got, want)
		}
	})
}
