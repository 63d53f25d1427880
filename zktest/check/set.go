package check

import (
	"fmt"
	"sync"

	"github.com/zkrecipes/zkrecipes"
)

// Set is the resource of the classic lock test: sections read it as a whole, add an element, and write it back as a
// whole. If two sections overlap, the later write erases what the other one added. The zero Set is empty and has no
// fence. A Set is safe for concurrent use.
//
// A version stands for the whole content, so writing version v plus an element costs the same however large the set is.
type Set struct {
	// OnRead and OnAdd, if not nil, may reject a token, like the Admit method of package fence's Gate. They are called
	// with the set's lock held, because the check and the access must be one step: otherwise a newer section could come in
	// between.
	OnRead, OnAdd func(token zkrecipes.Token) error

	mu      sync.Mutex
	updates []Update
	refused int
}

// Update is one accepted write: the content of version Base, plus the element. The version that it creates is its
// position in the history, starting at 1.
type Update struct {
	Client  string
	Token   zkrecipes.Token
	Element string
	Base    int
}

// String names the update.
func (u Update) String() string {
	return fmt.Sprintf("%q added by %s (token %d) to version %d", u.Element, u.Client, u.Token, u.Base)
}

// Read returns the version of the content, which is 0 for an empty set.
//
// Errors: an error from OnRead.
func (s *Set) Read(token zkrecipes.Token) (version int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admit(s.OnRead, token); err != nil {
		return 0, err
	}
	return len(s.updates), nil
}

// Add writes the content of version base plus element, whatever the current content is. If it fails, the set is
// unchanged.
//
// Errors: a version that was never read, or an error from OnAdd.
func (s *Set) Add(client string, token zkrecipes.Token, base int, element string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if base < 0 || base > len(s.updates) {
		return fmt.Errorf("version %d was never read: the set is at %d", base, len(s.updates))
	}
	if err := s.admit(s.OnAdd, token); err != nil {
		return err
	}
	s.updates = append(s.updates, Update{Client: client, Token: token, Element: element, Base: base})
	return nil
}

func (s *Set) admit(gate func(zkrecipes.Token) error, token zkrecipes.Token) error {
	if gate == nil {
		return nil
	}
	err := gate(token)
	if err != nil {
		s.refused++
	}
	return err
}

// Updates returns the accepted writes in order, for [LostUpdates].
func (s *Set) Updates() []Update {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Update(nil), s.updates...)
}

// Refused returns how many reads and writes the fence rejected.
func (s *Set) Refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// LostUpdate is an accepted update whose element is missing from the final content. It matches no sentinel error,
// because how many are too many is for you to decide, depending on the fence.
type LostUpdate struct {
	Lost Update
	// By is the update that erased it: the first update in the final content that was based on an earlier version.
	By Update
}

// Error names the update that was lost, and the one that erased it.
func (l LostUpdate) Error() string {
	return fmt.Sprintf("lost update: %v, wiped out by %v", l.Lost, l.By)
}

// LostUpdates returns the updates that are missing from the final content, in reverse order. No update is lost if and
// only if every section read what the one before it wrote. Pass it the result of [Set.Updates].
func LostUpdates(updates []Update) []LostUpdate {
	var lost []LostUpdate
	// Walk from the final version back along the bases: what lies between an update and its base is not in its content.
	for version := len(updates); version > 0; {
		by := updates[version-1]
		for skipped := version - 1; skipped > by.Base; skipped-- {
			lost = append(lost, LostUpdate{Lost: updates[skipped-1], By: by})
		}
		version = min(by.Base, version-1) // never forward, whatever the input
	}
	return lost
}
