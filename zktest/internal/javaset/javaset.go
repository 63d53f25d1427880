// Package javaset lists strings in the order of Java's HashSet.
package javaset

import "iter"

// Set is a set of strings in the order of Java's HashSet, in which a real server lists children and ephemeral nodes.
//
// The bucket of a key is its hash modulo the number of buckets. A bucket keeps the order of insertion. When the keys
// exceed three quarters of the buckets, the number of buckets doubles; removals never lower it, so the order depends on
// what the set has held. One thing is not implemented: Java converts a bucket of more than eight keys to a tree.
//
// Source: DataNode.children, DataTree.ephemerals, and HashMap of OpenJDK 17.
type Set struct {
	buckets []*entry
	size    int
}

type entry struct {
	key  string
	next *entry
	hash uint32
}

// New returns an empty set. The number of buckets must be a power of two.
func New(buckets int) *Set { return &Set{buckets: make([]*entry, buckets)} }

// Len returns the number of keys. Len, All and List accept a nil set, which is empty.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return s.size
}

// All yields the keys in order.
func (s *Set) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		if s == nil {
			return
		}
		for _, e := range s.buckets {
			for ; e != nil; e = e.next {
				if !yield(e.key) {
					return
				}
			}
		}
	}
}

// List returns the keys in order.
func (s *Set) List() []string {
	list := make([]string, 0, s.Len())
	for key := range s.All() {
		list = append(list, key)
	}
	return list
}

// longBucket is the bucket length from which Java prefers more buckets, as long as there are fewer than manyBuckets.
const (
	longBucket  = 8
	manyBuckets = 64
)

// Add adds a key that is not in the set.
func (s *Set) Add(key string) {
	before := s.append(&entry{key: key, hash: javaHash(key)})
	if before >= longBucket && len(s.buckets) < manyBuckets {
		s.grow()
	}
	if s.size++; s.size > len(s.buckets)*3/4 {
		s.grow()
	}
}

// append adds an entry at the end of its bucket, and returns the previous length of the bucket.
func (s *Set) append(e *entry) (before int) {
	at := s.bucket(e.hash)
	for *at != nil {
		at = &(*at).next
		before++
	}
	*at = e
	return before
}

func (s *Set) bucket(hash uint32) **entry { return &s.buckets[hash&uint32(len(s.buckets)-1)] }

// grow doubles the number of buckets. Some keys of a bucket stay and the others move, and both keep their order.
func (s *Set) grow() {
	old := s.buckets
	s.buckets = make([]*entry, 2*len(old))
	for _, e := range old {
		for e != nil {
			next := e.next
			e.next = nil
			s.append(e)
			e = next
		}
	}
}

// Remove removes a key if it exists.
func (s *Set) Remove(key string) {
	for at := s.bucket(javaHash(key)); *at != nil; at = &(*at).next {
		if (*at).key == key {
			*at = (*at).next
			s.size--
			return
		}
	}
}

// Twin returns a set with the same keys in the same order.
func (s *Set) Twin() *Set {
	if s == nil {
		return nil
	}
	twin := New(len(s.buckets))
	for key := range s.All() {
		twin.append(&entry{key: key, hash: javaHash(key)})
	}
	twin.size = s.size
	return twin
}

// Clone returns the set as Java clones it: with as many buckets as the keys need, which may change the order.
func (s *Set) Clone() *Set {
	buckets := 1
	for buckets < int(float32(s.size)/0.75+1) {
		buckets *= 2
	}
	clone := New(buckets)
	for key := range s.All() {
		clone.Add(key)
	}
	return clone
}

// javaHash is HashMap.hash of a string: String.hashCode with its upper half mixed in. No valid path has a character of
// two UTF-16 units.
func javaHash(key string) uint32 {
	var h uint32
	for _, r := range key {
		h = h*31 + uint32(r)
	}
	return h ^ h>>16
}
