package capi

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"runtime"
)

// A shared object with one loadable segment: headers, symbols, texts and the dynamic section. Its symbols are
// absolute: the loader does not add the address at which the object is mapped (glibc 2.28 and later).
const (
	headerSize  = 64
	segmentSize = 56
	symbolSize  = 24
	dynamicSize = 16
	pageSize    = 65536 // the largest page of the supported processors
)

// Symbol is a function in this process.
type Symbol struct {
	Name    string
	Address uintptr
}

// Stub returns the bytes of a shared object with a soname, which offers functions of this process.
func Stub(soname string, symbols []Symbol) []byte {
	texts := []byte{0}
	text := func(s string) uint32 {
		at := len(texts)
		texts = append(append(texts, s...), 0)
		return uint32(at)
	}
	name := text(soname)
	table := make([]byte, symbolSize) // the first symbol is empty
	for _, s := range symbols {
		table = binary.LittleEndian.AppendUint32(table, text(s.Name))
		table = append(table, elf.ST_INFO(elf.STB_GLOBAL, elf.STT_FUNC), byte(elf.STV_DEFAULT))
		table = binary.LittleEndian.AppendUint16(table, uint16(elf.SHN_ABS))
		table = binary.LittleEndian.AppendUint64(table, uint64(s.Address))
		table = binary.LittleEndian.AppendUint64(table, 0)
	}
	hashes := hashTable(symbols)
	atSymbols := uint64(headerSize + 3*segmentSize)
	atHashes := atSymbols + uint64(len(table))
	atDynamic := (atHashes + uint64(len(hashes)) + 7) &^ 7
	dynamic := []uint64{
		uint64(elf.DT_SONAME), uint64(name), uint64(elf.DT_HASH), atHashes, uint64(elf.DT_SYMTAB), atSymbols,
		uint64(elf.DT_SYMENT), symbolSize, uint64(elf.DT_STRTAB), 0, uint64(elf.DT_STRSZ), uint64(len(texts)),
		uint64(elf.DT_NULL), 0,
	}
	atTexts := atDynamic + uint64(8*len(dynamic))
	dynamic[9] = atTexts
	size := atTexts + uint64(len(texts))

	var b bytes.Buffer
	write := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) } // a buffer takes everything
	write(fileHeader())
	whole := elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Filesz: size, Memsz: size,
		Align: pageSize}
	write(whole)
	write(elf.Prog64{Type: uint32(elf.PT_DYNAMIC), Flags: uint32(elf.PF_R | elf.PF_W), Off: atDynamic,
		Vaddr: atDynamic, Filesz: uint64(8 * len(dynamic)), Memsz: uint64(8 * len(dynamic)), Align: 8})
	write(elf.Prog64{Type: uint32(elf.PT_GNU_STACK), Flags: uint32(elf.PF_R | elf.PF_W), Align: 16})
	write(table)
	write(hashes)
	write(make([]byte, atDynamic-uint64(b.Len())))
	write(dynamic)
	write(texts)
	return b.Bytes()
}

func fileHeader() elf.Header64 {
	h := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(machine()), Version: uint32(elf.EV_CURRENT), Phoff: headerSize,
		Ehsize: headerSize, Phentsize: segmentSize, Phnum: 3,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	h.Ident[elf.EI_VERSION] = byte(elf.EV_CURRENT)
	return h
}

// machine returns this program's processor.
func machine() elf.Machine {
	if runtime.GOARCH == "arm64" {
		return elf.EM_AARCH64
	}
	return elf.EM_X86_64
}

// hashTable returns the table by which the loader finds a symbol: buckets with chains of symbol indexes.
func hashTable(symbols []Symbol) []byte {
	buckets := make([]uint32, max(len(symbols), 1))
	chains := make([]uint32, len(symbols)+1)
	for i, s := range symbols {
		k := hash(s.Name) % uint32(len(buckets))
		chains[i+1] = buckets[k]
		buckets[k] = uint32(i + 1)
	}
	var b []byte
	for _, n := range append(append([]uint32{uint32(len(buckets)), uint32(len(chains))}, buckets...), chains...) {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return b
}

// hash is the System V ABI's hash of a symbol's name.
func hash(name string) (h uint32) {
	for _, c := range []byte(name) {
		h = h<<4 + uint32(c)
		h = (h ^ h>>24&0xf0) & 0x0fffffff
	}
	return h
}
