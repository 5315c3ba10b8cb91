// Package service connects the program with the service manager of a Linux system, systemd: it reports states, and it
// installs and removes the unit.
package service
