package load

import (
	"net"
	"os"
	"testing"
	"time"
)

func TestProcessorTimeIsUserAndSystemTimeBehindTheName(t *testing.T) {
	got, err := parseStat("77 (a b) c) S 1 77 77 0 -1 4194304 1 2 3 4 150 50 9 9 20 0 5 0 100")
	if err != nil || got != 2*time.Second {
		t.Errorf("%v, %v; want 2s: 150 and 50 ticks of 10 ms", got, err)
	}
	if _, err := parseStat("77 (a) S 1"); err == nil {
		t.Error("a line without the fields was read")
	}
}

func TestDropsAreThoseOfTheSocketsOfTheProcess(t *testing.T) {
	table := []byte(`   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  310: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 111 2 0000000000000000 7
  311: 0100007F:0036 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 112 2 0000000000000000 100
  312: 0100007F:0037 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 113 2 0000000000000000 20
`)
	if got := parseDrops(table, map[string]bool{"111": true, "113": true}); got != 27 {
		t.Errorf("%d drops, want 27", got)
	}
}

func TestTheMachinesBusyTimeLeavesOutIdleAndInterrupts(t *testing.T) {
	if got := parseBusy("cpu  100 20 30 9999 500 40 50 6 0 0\ncpu0 1 1 1"); got != 1560*time.Millisecond {
		t.Errorf("%v, want 1.56s: 100, 20, 30 and 6 ticks", got)
	}
}

func TestAProcessIsSeenWithItsMemoryAndItsDrops(t *testing.T) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	before, err := usageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 { // far more than 4 KiB, and nobody reads
		if _, err := conn.WriteToUDP(make([]byte, 1000), conn.LocalAddr().(*net.UDPAddr)); err != nil {
			t.Fatal(err)
		}
	}
	after, err := usageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if got := after.drops - before.drops; got < 900 || got > 1000 {
		t.Errorf("%d of 1000 datagrams were dropped, want 900 at least", got)
	}
	if after.rss < 1<<20 || after.peak < after.rss {
		t.Errorf("memory %d bytes, %d at peak", after.rss, after.peak)
	}
	if _, err := usageOf(1 << 30); err == nil {
		t.Error("a process that does not exist was measured")
	}
}
