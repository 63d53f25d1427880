package proto

// ACL is one entry of a node's access control list: it grants the permissions (bits: read 1, write 2, create 4, delete
// 8, admin 16) to the id in its scheme.
type ACL struct {
	Perms  int32
	Scheme string
	ID     string
}

// OpenACL is an ACL that allows everything.
var OpenACL = []ACL{{Perms: PermAll, Scheme: "world", ID: "anyone"}}

// Stat describes a node as ZooKeeper does.
type Stat struct {
	Czxid, Mzxid, Ctime, Mtime  int64
	Version, Cversion, Aversion int32
	EphemeralOwner              int64
	DataLength, NumChildren     int32
	Pzxid                       int64
}

// ACLs returns a list of ACL entries, or nil for null.
func (d *Decoder) ACLs() []ACL {
	n := d.Count(12)
	if n < 0 {
		return nil
	}
	list := make([]ACL, 0, n)
	for range n {
		list = append(list, ACL{Perms: d.Int32(), Scheme: d.Str(), ID: d.Str()})
	}
	return list
}

// ACLs writes a list of ACL entries.
func (e *Encoder) ACLs(list []ACL) {
	e.Int32(int32(len(list)))
	for _, a := range list {
		e.Int32(a.Perms)
		e.Str(a.Scheme)
		e.Str(a.ID)
	}
}

// Stat writes a Stat.
func (e *Encoder) Stat(s Stat) {
	for _, v := range [...]int64{s.Czxid, s.Mzxid, s.Ctime, s.Mtime} {
		e.Int64(v)
	}
	e.Int32(s.Version)
	e.Int32(s.Cversion)
	e.Int32(s.Aversion)
	e.Int64(s.EphemeralOwner)
	e.Int32(s.DataLength)
	e.Int32(s.NumChildren)
	e.Int64(s.Pzxid)
}
