package fence

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/zkrecipes/zkrecipes"
)

// ErrCorrupt is returned when a [File] store's file is damaged, or is another kind of file.
var ErrCorrupt = errors.New("damaged fence file")

// header is the first line of the log, and identifies the format of the others.
const header = "zkrecipes fence 1\n"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record returns a line of the log: the checksum of the rest, the token, and the resource. The resource is quoted, so
// that it cannot span two lines.
func record(resource string, t zkrecipes.Token) []byte {
	body := fmt.Sprintf("%d %q", t, resource)
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum([]byte(body), castagnoli), body)
}

func parseRecord(line string) (resource string, t zkrecipes.Token, ok bool) {
	sum, body, _ := strings.Cut(line, " ")
	if sum != fmt.Sprintf("%08x", crc32.Checksum([]byte(body), castagnoli)) {
		return "", 0, false
	}
	number, quoted, _ := strings.Cut(body, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return "", 0, false
	}
	resource, err = strconv.Unquote(quoted)
	return resource, zkrecipes.Token(n), err == nil
}

// replay returns the highest tokens in a log. Each record is on disk before the next one is written, so only the last
// record can be unfinished: its end is missing, or it has zeros from blocks that never reached the disk. For any other
// bad record the error is [ErrCorrupt].
func replay(content []byte) (map[string]zkrecipes.Token, error) {
	rest, ok := bytes.CutPrefix(content, []byte(header))
	if !ok {
		return nil, fmt.Errorf("%w: the first line is not %q", ErrCorrupt, strings.TrimSpace(header))
	}
	highest := make(map[string]zkrecipes.Token)
	for number := 2; len(rest) > 0; number++ {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		resource, t, ok := parseRecord(string(line))
		switch {
		case !ended:
			return highest, nil
		case ok:
			highest[resource] = max(highest[resource], t)
		case len(after) == 0 && bytes.IndexByte(line, 0) >= 0:
			return highest, nil
		default:
			return nil, fmt.Errorf("%w: line %d", ErrCorrupt, number)
		}
		rest = after
	}
	return highest, nil
}
