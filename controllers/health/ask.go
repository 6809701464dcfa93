package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/moqrelay/operator/relay/status"
)

const (
	// maxDocument bounds a status document: 17 certificates with 8 names each, 64
	// peers and 16 upstreams take less than a quarter of it.
	maxDocument = 256 << 10
	// idleConnections bounds the connections that are kept from one ask to the next.
	idleConnections = 256
)

// errSchema is why a document of another version is not read.
var errSchema = errors.New("the status document has another schema")

// newClient makes an HTTP client for pods: no proxy, and it follows no redirect,
// with which a pod could send the operator elsewhere.
func newClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			MaxIdleConns: idleConnections, MaxIdleConnsPerHost: 1, IdleConnTimeout: 2 * time.Minute,
			DisableCompression: true, MaxResponseHeaderBytes: 16 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask reads the status document of the relay at address (HOST:PORT).
func ask(ctx context.Context, client *http.Client, address string) (status.Document, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/statusz", nil)
	if err != nil {
		return status.Document{}, err
	}
	res, err := client.Do(req)
	if err != nil {
		return status.Document{}, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return status.Document{}, fmt.Errorf("ask %s for its status: %s", address, res.Status)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	if err != nil {
		return status.Document{}, fmt.Errorf("read the status of %s: %w", address, err)
	}
	return parse(body)
}

// parse reads a document of the schema that we know. Fields that we do not know are
// left out, as the schema's own rule says.
func parse(body []byte) (status.Document, error) {
	if len(body) > maxDocument {
		return status.Document{}, fmt.Errorf("parse a status document: more than %d bytes", maxDocument)
	}
	var head struct {
		Schema int `json:"v"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return status.Document{}, fmt.Errorf("parse a status document: %w", err)
	}
	if head.Schema != status.SchemaVersion {
		return status.Document{}, fmt.Errorf("%w: it is %d, want %d", errSchema, head.Schema, status.SchemaVersion)
	}
	var d status.Document
	if err := json.Unmarshal(body, &d); err != nil {
		return status.Document{}, fmt.Errorf("parse a status document: %w", err)
	}
	return d, nil
}
