package repo

import "strings"

// Key is by what a model is told from others: its name, or with --model-namespacing, where repositories may have models of one
// name, its repository and its name. A name has no separator of paths, so a key is taken apart at its last one: see Split.
func Key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return Namespace(namespace) + "/" + name
}

// Split takes a key apart. A key without a namespace is a name.
func Split(key string) (namespace, name string) {
	at := strings.LastIndexByte(key, '/')
	if at < 0 {
		return "", key
	}
	return key[:at], key[at+1:]
}

// Namespace is what a repository is called in keys.
func Namespace(root string) string { return strings.TrimRight(root, "/") }
