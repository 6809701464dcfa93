package config

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestFlagsAndVariablesFollowFromTheKey(t *testing.T) {
	tests := []struct{ key, flag, env string }{
		{"listen", "listen", "MOQ_LISTEN"},
		{"status.listen", "status-listen", "MOQ_STATUS_LISTEN"},
		{"windows.stream", "windows-stream", "MOQ_WINDOWS_STREAM"},
		{"windows.maxIncomingStreams", "windows-max-incoming-streams", "MOQ_WINDOWS_MAX_INCOMING_STREAMS"},
		{"limits.sessionsPerIP", "limits-sessions-per-ip", "MOQ_LIMITS_SESSIONS_PER_IP"},
		{"transports.qmuxDrafts", "transports-qmux-drafts", "MOQ_TRANSPORTS_QMUX_DRAFTS"},
		{"transports.webTransport.state", "transports-web-transport-state", "MOQ_TRANSPORTS_WEB_TRANSPORT_STATE"},
	}
	for _, tt := range tests {
		k, ok := lookup(tt.key)
		if !ok || k.Flag() != tt.flag || k.Env() != tt.env {
			t.Errorf("%s has flag %q and variable %q, want %q and %q", tt.key, k.Flag(), k.Env(), tt.flag, tt.env)
		}
	}
}

func TestNoTwoKeysShareAFlag(t *testing.T) {
	flags := map[string]string{}
	for _, k := range Keys() {
		if other, ok := flags[k.Flag()]; ok {
			t.Errorf("%s and %s are both --%s", k.Name, other, k.Flag())
		}
		flags[k.Flag()] = k.Name
	}
}

// leaves counts the settings inside a struct.
func leaves(typ reflect.Type) int {
	if typ.Kind() != reflect.Struct || typ == reflect.TypeFor[Size]() {
		return 1
	}
	n := 0
	for i := range typ.NumField() {
		n += leaves(typ.Field(i).Type)
	}
	return n
}

func TestEveryFieldHasItsOwnKey(t *testing.T) {
	if got, want := len(keys), leaves(reflect.TypeFor[Config]()); got != want {
		t.Errorf("there are %d keys for %d fields", got, want)
	}
	seen := map[any]string{}
	var c Config
	for _, k := range keys {
		// Field 0 of every value is the pointer to its field of Config.
		to := reflect.ValueOf(k.at(&c)).Elem().Field(0).Pointer()
		if other, ok := seen[to]; ok {
			t.Errorf("%s and %s are the same field", k.Name, other)
		}
		seen[to] = k.Name
	}
}

func TestLiveKeysAreThoseThatLiveConfigHolds(t *testing.T) {
	var live []string
	for _, k := range keys {
		if k.Class == ClassLive {
			live = append(live, k.Name)
		}
	}
	if got, want := len(live), leaves(reflect.TypeFor[LiveConfig]()); got != want {
		t.Errorf("%d keys are live, LiveConfig has %d fields: %v", got, want, live)
	}
}

func TestTheDocumentationListsEveryKeyAsItIs(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, k := range keys {
		def := "`" + k.Default() + "`"
		if k.Default() == "" {
			def = ""
		}
		row := []string{"`" + k.Name + "`", def, k.Range(), string(k.Class), "`--" + k.Flag() + "`", "`" + k.Env() + "`", k.Help}
		table.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("docs/configuration.md does not have this table:\n%s", table.String())
	}
}

func TestTheSampleInTheDocumentationIsValid(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	sample, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/configuration.md has no yaml sample")
	}
	if _, err := Parse("docs/configuration.md", []byte(sample)); err != nil {
		t.Error(err)
	}
}
