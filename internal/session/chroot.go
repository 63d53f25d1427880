package session

import "strings"

// Chroot is the node below which all paths of a client are. It ends without a slash, so the root of the server is "".
type Chroot string

// Abs returns the path on the server of what the client calls path.
func (r Chroot) Abs(path string) string {
	if path == "/" && r != "" {
		return string(r)
	}
	return string(r) + path
}

// Rel returns what the client calls a path on the server; "" if that is not below the chroot.
func (r Chroot) Rel(path string) string {
	rest, below := strings.CutPrefix(path, string(r))
	switch {
	case !below || path == "":
		return ""
	case rest == "":
		return "/"
	case rest[0] != '/': // the chroot /app is not above /apple
		return ""
	}
	return rest
}

// Sub returns the chroot that the client calls path.
func (r Chroot) Sub(path string) Chroot {
	if path == "/" {
		return r
	}
	return r + Chroot(path)
}
