// Package folders lists, moves and exchanges folders of models.
package folders
