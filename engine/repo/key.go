package repo

import "strings"

// Key returns the key of a model: its name, or with a namespace the repository and the name. Namespaces
// (--model-namespacing) allow models of the same name in several repositories. A name has no slash, so Split finds it
// behind the last one.
func Key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return Namespace(namespace) + "/" + name
}

// Split splits a key into namespace and name. The namespace may be empty.
func Split(key string) (namespace, name string) {
	at := strings.LastIndexByte(key, '/')
	return key[:max(at, 0)], key[at+1:]
}

// Namespace returns the namespace of a repository.
func Namespace(root string) string { return strings.TrimRight(root, "/") }
