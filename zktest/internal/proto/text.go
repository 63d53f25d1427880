package proto

import (
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Null represents a string of length -1, which is null to ZooKeeper. No decoded string equals it, since decoding leaves
// no invalid UTF-8.
const Null = "\xff"

// fromUTF8 decodes a string as Java does, with a replacement character for each part that is not UTF-8.
func fromUTF8(p []byte) string {
	if utf8.Valid(p) {
		return string(p)
	}
	var b strings.Builder
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if r == utf8.RuneError && n == 1 {
			n = malformed(p)
		}
		b.WriteRune(r)
		p = p[n:]
	}
	return b.String()
}

// malformed returns how many bytes one replacement character represents: a lead byte and the bytes that could follow
// it, or a whole surrogate.
func malformed(p []byte) int {
	following := func(from int, p []byte) int {
		n := from
		for n < len(p) && p[n]&0xc0 == 0x80 {
			n++
		}
		return n
	}
	at := func(i int) byte {
		if i < len(p) {
			return p[i]
		}
		return 0
	}
	switch lead, second := p[0], at(1); {
	case lead == 0xed && second >= 0xa0 && second < 0xc0:
		return following(2, p[:min(len(p), 3)])
	case lead == 0xe0 && second < 0xa0, lead == 0xf0 && second < 0x90, lead == 0xf4 && second > 0x8f:
		return 1
	case lead >= 0xe0 && lead <= 0xef:
		return following(1, p[:min(len(p), 2)])
	case lead >= 0xf0 && lead <= 0xf4:
		return following(1, p[:min(len(p), 3)])
	}
	return 1
}

// appendUTF8 encodes a string as ZooKeeper does: a character above U+FFFF becomes two surrogates of three bytes each.
//
// Source: BinaryOutputArchive.stringToByteBuffer.
func appendUTF8(b []byte, s string) []byte {
	if !slices.ContainsFunc([]byte(s), func(c byte) bool { return c >= 0xf0 }) {
		return append(b, s...)
	}
	for _, r := range s {
		if r <= 0xffff {
			b = utf8.AppendRune(b, r)
			continue
		}
		high, low := utf16.EncodeRune(r)
		for _, u := range [...]rune{high, low} {
			b = append(b, 0xe0|byte(u>>12), 0x80|byte(u>>6)&0x3f, 0x80|byte(u)&0x3f)
		}
	}
	return b
}
