package paths

import "strings"

// Chroot is the node that all of a client's paths are below. It has no trailing slash, so the root of the server is "".
type Chroot string

// Abs translates a path of the client to the path on the server.
func (r Chroot) Abs(path string) string {
	if path == "/" && r != "" {
		return string(r)
	}
	return string(r) + path
}

// Rel translates a path on the server to the client's. It returns "" if the path is not below the chroot.
func (r Chroot) Rel(path string) string {
	rest, below := strings.CutPrefix(path, string(r))
	switch {
	case !below || path == "":
		return ""
	case rest == "":
		return "/"
	case rest[0] != '/': // the chroot /app does not contain /apple
		return ""
	}
	return rest
}

// Sub returns the chroot at the client's path.
func (r Chroot) Sub(path string) Chroot {
	if path == "/" {
		return r
	}
	return r + Chroot(path)
}
