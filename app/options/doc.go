// Package options holds every option of the server in one table, with its name, its value, its check and its help text.
// Load reads a command line and the environment into a Config. Most of a Config consists of the Options of the packages
// that use them; package app adds what is made at run time and passes them on.
package options
