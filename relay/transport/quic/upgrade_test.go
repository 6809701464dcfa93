package quic

import (
	"slices"
	"testing"
)

var offers = []struct{ header, want string }{
	{`"moq-lite-06"`, "moq-lite-06"},
	{`"moq-lite-05", "moq-lite-06"`, "moq-lite-06"},
	{`"moq-lite-05"`, "moq-lite-05"},
	{`"moq-lite-06";v=1;x`, "moq-lite-06"},
	{`("moq-lite-06" "x"), "moq-lite-05"`, "moq-lite-05"},
	{`moq-lite-06`, ""},
	{`1, ?1, "moq-lite-05"`, "moq-lite-05"},
	{`"moql"`, ""},
	{`"moq-lite-06`, ""},
	{``, ""},
}

func TestOursComesFirstInWhateverOrderItIsOffered(t *testing.T) {
	ours := []string{"moq-lite-06", "moq-lite-05"}
	for _, o := range offers {
		if got := choose(ours, []string{o.header}); got != o.want {
			t.Errorf("%s: chose %q, want %q", o.header, got, o.want)
		}
	}
	if got := choose(ours, []string{`"moq-lite-05"`, `"moq-lite-06"`}); got != "moq-lite-06" {
		t.Errorf("two header lines: chose %q, want moq-lite-06", got)
	}
}

func FuzzChoose(f *testing.F) {
	for _, o := range offers {
		f.Add(o.header)
	}
	ours := []string{"moq-lite-06", "moq-lite-05"}
	f.Fuzz(func(t *testing.T, header string) {
		got := choose(ours, []string{header})
		if got != "" && !slices.Contains(ours, got) {
			t.Errorf("chose %q, which is none of ours", got)
		}
	})
}
