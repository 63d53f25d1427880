package zktest

import "iter"

// hashSet is a set of strings in the order of Java's HashSet, in which a real server lists children and ephemeral nodes.
//
// The bucket of a key is its hash modulo the number of buckets. A bucket keeps the order of insertion. More keys than
// three quarters of the buckets double the number of buckets, and removals never lower it. So the order depends on
// what the set has held. One thing is left out: Java makes a tree of a bucket of more than eight keys.
//
// Source: DataNode.children, DataTree.ephemerals, and HashMap of OpenJDK 17.
type hashSet struct {
	buckets []*entry
	size    int
}

type entry struct {
	key  string
	next *entry
	hash uint32
}

// The number of buckets that a set begins with.
const (
	childBuckets     = 8
	ephemeralBuckets = 16
)

func newHashSet(buckets int) *hashSet { return &hashSet{buckets: make([]*entry, buckets)} }

// len and all also serve a nil set, which a node has that never had a child.
func (s *hashSet) len() int {
	if s == nil {
		return 0
	}
	return s.size
}

func (s *hashSet) all() iter.Seq[string] {
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

// list returns the keys in order.
func (s *hashSet) list() []string {
	list := make([]string, 0, s.len())
	for key := range s.all() {
		list = append(list, key)
	}
	return list
}

// longBucket is the length from which Java prefers more buckets, if there are fewer than manyBuckets.
const (
	longBucket  = 8
	manyBuckets = 64
)

// add adds a key that is not there.
func (s *hashSet) add(key string) {
	before := s.append(&entry{key: key, hash: javaHash(key)})
	if before >= longBucket && len(s.buckets) < manyBuckets {
		s.grow()
	}
	if s.size++; s.size > len(s.buckets)*3/4 {
		s.grow()
	}
}

// append puts an entry at the end of its bucket, and returns the length of the bucket before.
func (s *hashSet) append(e *entry) (before int) {
	at := s.bucket(e.hash)
	for *at != nil {
		at = &(*at).next
		before++
	}
	*at = e
	return before
}

func (s *hashSet) bucket(hash uint32) **entry { return &s.buckets[hash&uint32(len(s.buckets)-1)] }

// grow doubles the buckets. Of the keys of one bucket some stay, the others move, and both keep their order.
func (s *hashSet) grow() {
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

// remove removes a key, if it is there.
func (s *hashSet) remove(key string) {
	for at := s.bucket(javaHash(key)); *at != nil; at = &(*at).next {
		if (*at).key == key {
			*at = (*at).next
			s.size--
			return
		}
	}
}

// twin returns a set with the same keys in the same order.
func (s *hashSet) twin() *hashSet {
	if s == nil {
		return nil
	}
	twin := newHashSet(len(s.buckets))
	for key := range s.all() {
		twin.append(&entry{key: key, hash: javaHash(key)})
	}
	twin.size = s.size
	return twin
}

// clone returns the set as Java clones it: with as many buckets as the keys need, which may change the order.
func (s *hashSet) clone() *hashSet {
	buckets := 1
	for buckets < int(float32(s.size)/0.75+1) {
		buckets *= 2
	}
	clone := newHashSet(buckets)
	for key := range s.all() {
		clone.add(key)
	}
	return clone
}

// javaHash is HashMap.hash of a string: String.hashCode, and its upper half mixed in. No valid path has a character of
// two UTF-16 units.
func javaHash(key string) uint32 {
	var h uint32
	for _, r := range key {
		h = h*31 + uint32(r)
	}
	return h ^ h>>16
}
