package lite

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestAPathIsBroughtToNormalForm(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "",
		"/":                       "",
		"///":                     "",
		"room":                    "room",
		"room/a":                  "room/a",
		"/room//a/":               "room/a",
		"//a///b//c//":            "a/b/c",
		"a/.hidden/..b/c..":       "a/.hidden/..b/c..",
		" a / b ":                 " a / b ",
		"é/\u00e9/日本":             "é/\u00e9/日本",
		strings.Repeat("/", 1024): "",
		strings.Repeat("a/", 32):  strings.Repeat("a/", 31) + "a",
		strings.Repeat("x", 1024): strings.Repeat("x", 1024),
	} {
		if got, err := NormalizePath(in); err != nil || got != want {
			t.Errorf("NormalizePath(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
}

func TestAPathThatNobodyMayCarryIsRefused(t *testing.T) {
	for _, p := range []string{
		".", "..", "a/./b", "a/../b", "/../", "a/..",
		"a\x00b", "a/\xff", "\xc3",
		strings.Repeat("a/", 33),
		strings.Repeat("x", 1025),
		strings.Repeat("/", 1025),
	} {
		if got, err := NormalizePath(p); !errors.Is(err, ErrRefused) || got != "" {
			t.Errorf("NormalizePath(%.40q) = %q, %v, want it refused", p, got, err)
		}
	}
}

func TestNormalFormIsKeptWithoutACopy(t *testing.T) {
	p := strings.Repeat("segment/", 31) + "last"
	if n := testing.AllocsPerRun(100, func() { NormalizePath(p) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// Peers compare paths in normal form, so both directions bring them there.
func TestPathsAreNormalizedOnTheirWayOutAndIn(t *testing.T) {
	want := unhex(`
		0d              // length 13
		06 726f6f6d2f61 // broadcast "room/a"
		05 766964656f   // track "video"`)
	got, err := (&Track{Broadcast: "/room//a/", Track: "video"}).Append(nil, Lite05)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("Append: %x, %v, want %x", got, err, want)
	}
	m, err := DecodeTrack(unhex(`
		09 2f726f6f6d2f2f612f // broadcast "/room//a/"
		05 2f2f782f2f         // track "//x//": a plain name`), Lite05)
	if err != nil || m.Broadcast != "room/a" || m.Track != "//x//" {
		t.Errorf("decoded %+v, %v, want room/a and //x//", m, err)
	}
}

func TestARefusedPathConcernsItsMessageAlone(t *testing.T) {
	for _, v := range everyVersion {
		wantEncodeError(t, &AnnounceRequest{Prefix: "a/../b"}, v, ErrRefused)
		m := &AnnounceRequest{Prefix: "a/xx/b"}
		b, err := m.Append(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		b = bytes.Replace(b, []byte("xx"), []byte(".."), 1)
		if _, err := DecodeAnnounceRequest(b[1:], v); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: prefix a/../b: %v, want it refused", v, err)
		}
		// A message that cannot be read is worse than one that is refused.
		if _, err := DecodeAnnounceRequest(append(b[1:], 0, 0), v); errors.Is(err, ErrRefused) || err == nil {
			t.Errorf("%s: prefix a/../b and bytes left over: %v, want the leftover named", v, err)
		}
	}
}

func FuzzNormalizePath(f *testing.F) {
	for _, p := range []string{"", "/", "room/a", "/room//a/", "a/../b", ".", "a\x00", "\xff", strings.Repeat("a/", 33)} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		got, err := NormalizePath(p)
		if err != nil {
			if got != "" || !errors.Is(err, ErrRefused) {
				t.Fatalf("%q: %q, %v, want an empty path and ErrRefused", p, got, err)
			}
			return
		}
		if again, err := NormalizePath(got); err != nil || again != got {
			t.Fatalf("%q becomes %q, and that %q, %v", p, got, again, err)
		}
		for segment := range strings.SplitSeq(got, "/") {
			if got != "" && (segment == "" || segment == "." || segment == "..") {
				t.Fatalf("%q becomes %q with the segment %q", p, got, segment)
			}
		}
	})
}
