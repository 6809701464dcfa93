package lite

import (
	"fmt"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// serveFetch refuses a FETCH that can be read.
func (s *Session) serveFetch(in *wire.StreamReader) error {
	body, err := message(in, "FETCH")
	if err != nil {
		return err
	}
	msg, err := lite.DecodeFetch(body, s.version)
	if err != nil {
		return err
	}
	s.counters.Refused.Add(errNoFetch)
	return fmt.Errorf("FETCH %q %q group %d: %w", msg.Broadcast, msg.Track, msg.Group, errNoFetch)
}

var errNoFetch = fmt.Errorf("not served: %w", model.ErrNotFound)
