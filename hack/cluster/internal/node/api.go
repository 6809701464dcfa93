package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"time"
)

// An api is the administrator's view of the API server. It is this small so that
// the program needs no client library, whose compilation takes minutes.
type api struct {
	client *http.Client
	server string
}

func (c *Cluster) newAPI() (*api, error) {
	pair, err := tls.LoadX509KeyPair(c.key("admin.crt"), c.key("admin.key"))
	if err != nil {
		return nil, fmt.Errorf("administrator's certificate: %w", err)
	}
	ca, err := os.ReadFile(c.key("ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &api{
		server: "https://" + netip.AddrPortFrom(c.journal.Address, uint16(ports.API)).String(),
		client: &http.Client{
			Timeout:   5 * time.Second,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}},
		},
	}, nil
}

// get fetches a path; into may be nil.
func (a *api) get(ctx context.Context, path string, into any) error {
	return get(ctx, a.client, a.server+path, into)
}

// get fetches a URL whose answer must be 200 OK.
func get(ctx context.Context, client *http.Client, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("GET %s: %w", url, err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %.300s", url, res.Status, b)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("GET %s: %w", url, err)
	}
	return nil
}

// nodeState is the part of a Node that tells whether pods can run there.
type nodeState struct {
	Spec struct {
		Taints []struct {
			Key string `json:"key"`
		} `json:"taints"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"conditions"`
	} `json:"status"`
}

// ready is nil when the node is Ready and the taint that it started with is gone.
func (n *nodeState) ready() error {
	for _, c := range n.Status.Conditions {
		if c.Type != "Ready" {
			continue
		}
		if c.Status != "True" {
			return fmt.Errorf("node %s is not ready: %s", nodeName, c.Message)
		}
		if len(n.Spec.Taints) > 0 {
			return fmt.Errorf("node %s still has the taint %s", nodeName, n.Spec.Taints[0].Key)
		}
		return nil
	}
	return fmt.Errorf("node %s has no condition Ready yet", nodeName)
}

func (a *api) nodeReady(ctx context.Context) error {
	var n nodeState
	if err := a.get(ctx, "/api/v1/nodes/"+nodeName, &n); err != nil {
		return err
	}
	return n.ready()
}
