package zktest

import "github.com/zkrecipes/zkrecipes/zktest/internal/jute"

// nullString stands for a string that is null to ZooKeeper.
const nullString = jute.Null

// decoder and encoder also know the records that are part of several requests and replies.
type (
	decoder struct{ jute.Decoder }
	encoder struct{ jute.Encoder }
)

// acls returns a list of ACL entries; nil for null.
func (d *decoder) acls() []ACL {
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

func (e *encoder) acls(list []ACL) {
	e.Int32(int32(len(list)))
	for _, a := range list {
		e.Int32(a.Perms)
		e.Str(a.Scheme)
		e.Str(a.ID)
	}
}

func (e *encoder) stat(s Stat) {
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
