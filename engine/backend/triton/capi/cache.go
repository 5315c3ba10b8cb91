package capi

/*
#include <stdlib.h>
#include "cache.h"
#include "shim.h"
*/
import "C"

import (
	"unsafe"

	"nereid/engine/status"
)

// Cache is an initialized cache library. Its methods may be called from any goroutine, as far as the library allows it.
type Cache struct{ c *C.nt_cache }

// OpenCache opens a cache library and initializes its cache with a JSON object of settings. Errors: InvalidArg for a
// file that is not such a library, and those of the library.
func OpenCache(path string, sonames []string, config string) (*Cache, error) {
	handle, err := openLibrary(path, sonames)
	if err != nil {
		return nil, status.Errorf(status.InvalidArg, "the cache library %s cannot be opened: %w", path, err)
	}
	c := (*C.nt_cache)(C.must_have(C.calloc(1, C.sizeof_nt_cache))) // stays until the process ends
	C.nt_find_cache(handle, c)
	if c.initialize == nil || c.finalize == nil || c.lookup == nil || c.insert == nil {
		return nil, status.Errorf(status.InvalidArg, "%s is not a cache: it needs the functions "+
			"TRITONCACHE_CacheInitialize, -CacheFinalize, -CacheLookup and -CacheInsert", path)
	}
	var t texts
	defer t.free()
	if err := goError(C.nt_cache_initialize(c, t.of(config))); err != nil {
		return nil, err
	}
	return &Cache{c}, nil
}

// Lookup returns what was inserted with a key. Errors: those of the library; NotFound is that of an unknown key.
func (c *Cache) Lookup(key string) ([]byte, error) {
	var t texts
	defer t.free()
	var data *C.char
	var size C.size_t
	if err := goError(C.nt_cache_lookup(c.c, t.of(key), &data, &size)); err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(data))
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(data)), size)...), nil
}

// Insert keeps a copy of data. Errors: those of the library; AlreadyExists for a key that it has.
func (c *Cache) Insert(key string, data []byte) error {
	var t texts
	defer t.free()
	return goError(C.nt_cache_insert(c.c, t.of(key), (*C.char)(unsafe.Pointer(unsafe.SliceData(data))),
		C.size_t(len(data))))
}

// Close finalizes the cache.
func (c *Cache) Close() error { return goError(C.nt_cache_finalize(c.c)) }
