// Package faults has the tests of all recipes under faults, in virtual time.
package faults
