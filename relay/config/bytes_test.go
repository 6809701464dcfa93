package config

import (
	"strings"
	"testing"
)

func TestBytesAreIntegersOrQuantities(t *testing.T) {
	tests := []struct {
		text string
		want Bytes
		form string // what String gives back
	}{
		{"0", 0, "0"},
		{"1", 1, "1"},
		{"4194304", 4194304, "4Mi"},
		{"4Mi", 4194304, "4Mi"},
		{"4MiB", 4194304, "4Mi"},
		{"8MB", 8000000, "8M"},
		{"8M", 8000000, "8M"},
		{"64k", 64000, "64k"},
		{"64KB", 64000, "64k"},
		{"64Ki", 65536, "64Ki"},
		{"1536Ki", 1572864, "1536Ki"},
		{"1Gi", 1073741824, "1Gi"},
		{"2G", 2000000000, "2G"},
		{"1Ti", 1099511627776, "1Ti"},
		{"1T", 1000000000000, "1T"},
		{"12B", 12, "12"},
		{"9223372036854775807", 9223372036854775807, "9223372036854775807"},
		{"8388607Ti", 8388607 << 40, "8388607Ti"},
	}
	for _, tt := range tests {
		got, err := ParseBytes(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("ParseBytes(%q) = %d, %v, want %d", tt.text, got, err, tt.want)
		}
		if got.String() != tt.form {
			t.Errorf("ParseBytes(%q) prints as %q, want %q", tt.text, got.String(), tt.form)
		}
	}
}

func TestWhatIsNoNumberOfBytesIsRefused(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", "is not a number of bytes"},
		{"Mi", "is not a number of bytes"},
		{"B", "is not a number of bytes"},
		{"-1", "is not a number of bytes"},
		{"+1", "is not a number of bytes"},
		{"1.5Gi", "is not a number of bytes"},
		{" 1", "is not a number of bytes"},
		{"1 Mi", "is not a number of bytes"},
		{"1mi", "is not a number of bytes"},
		{"1MiMi", "is not a number of bytes"},
		{"1BB", "is not a number of bytes"},
		{"0x10", "is not a number of bytes"},
		{"1e6", "is not a number of bytes"},
		{"1_000", "is not a number of bytes"},
		{"٣", "is not a number of bytes"},
		{"9223372036854775808", "is too large"},
		{"8388608Ti", "is too large"},
		{"99999999999999999999", "is too large"},
		{"18446744073709551615Ti", "is too large"},
	}
	for _, tt := range tests {
		got, err := ParseBytes(tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("ParseBytes(%q) = %d, %v, want an error with %q", tt.text, got, err, tt.want)
		}
	}
}

func TestALongTextIsCutInItsError(t *testing.T) {
	_, err := ParseBytes(strings.Repeat("x", 10000))
	if err == nil || len(err.Error()) > 200 {
		t.Fatalf("the error has %d bytes, want at most 200: %v", len(err.Error()), err)
	}
}

func TestASizeIsBytesOrAPercentageOfALimit(t *testing.T) {
	tests := []struct {
		text  string
		limit int64
		want  int64
	}{
		{"512Mi", 1 << 30, 512 << 20},
		{"50%", 1 << 30, 512 << 20},
		{"100%", 1000, 1000},
		{"1%", 1000, 10},
		{"33%", 1001, 330},
		{"99%", 9223372036854775807, 9131138316486228048},
	}
	for _, tt := range tests {
		s, err := ParseSize(tt.text)
		if err != nil || s.String() != tt.text {
			t.Fatalf("ParseSize(%q) = %v, %v", tt.text, s, err)
		}
		if got := s.Of(tt.limit); got != tt.want {
			t.Errorf("%s of %d is %d, want %d", tt.text, tt.limit, got, tt.want)
		}
	}
}

func TestWhatIsNoSizeIsRefused(t *testing.T) {
	for _, text := range []string{"", "%", "0%", "101%", "-1%", "1.5%", "50 %", "50%%", "half", "300%"} {
		if s, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %v, want an error", text, s)
		}
	}
}

func FuzzParseBytes(f *testing.F) {
	for _, seed := range []string{"0", "4Mi", "8MB", "64k", "9223372036854775807", "8388608Ti", "1.5Gi", "B", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ParseBytes(text)
		if err != nil {
			return
		}
		again, err := ParseBytes(b.String())
		if b < 0 || err != nil || again != b {
			t.Fatalf("%q is %d, prints as %q, which is %d, %v", text, b, b.String(), again, err)
		}
	})
}

func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"50%", "4Mi", "100%", "101%", "%", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSize(text)
		if err != nil || s == (Size{}) {
			return
		}
		again, err := ParseSize(s.String())
		if err != nil || again != s {
			t.Fatalf("%q is %+v, prints as %q, which is %+v, %v", text, s, s.String(), again, err)
		}
		if got := s.Of(1 << 40); s.Percent > 0 && (got <= 0 || got > 1<<40) {
			t.Fatalf("%q of 1 TiB is %d", text, got)
		}
	})
}
