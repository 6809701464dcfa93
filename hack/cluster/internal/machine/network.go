package machine

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// LinkExists says whether there is a network interface of that name.
func LinkExists(name string) bool {
	_, err := net.InterfaceByName(name)
	return err == nil
}

// AddBridge makes a bridge with the address, up, and routes the further ranges to
// it: what is addressed there never takes the machine's default route, even
// before the rules that translate it are in place, and has a route on a machine
// that has no default one.
func AddBridge(ctx context.Context, name string, address netip.Prefix, ranges ...netip.Prefix) error {
	commands := [][]string{
		{"ip", "link", "add", name, "type", "bridge"},
		{"ip", "addr", "add", address.String(), "dev", name},
		{"ip", "link", "set", name, "up"},
	}
	for _, r := range ranges {
		commands = append(commands, []string{"ip", "route", "add", r.String(), "dev", name})
	}
	for _, argv := range commands {
		if _, err := Run(ctx, argv...); err != nil {
			return err
		}
	}
	return nil
}

// RemoveLink removes a network interface, and with it its addresses and routes.
// One that is not there is fine.
func RemoveLink(ctx context.Context, name string) error {
	if !LinkExists(name) {
		return nil
	}
	_, err := Run(ctx, "ip", "link", "delete", name)
	return err
}

// Tables lists those of the nft tables ("ip kube-proxy") that exist.
func Tables(ctx context.Context, tables []string) ([]string, error) {
	out, err := Run(ctx, "nft", "list", "tables")
	if err != nil {
		return nil, err
	}
	return present(out, tables), nil
}

func present(listing string, tables []string) []string {
	var all []string
	for line := range strings.Lines(listing) {
		all = append(all, strings.TrimPrefix(strings.TrimSpace(line), "table "))
	}
	return slices.DeleteFunc(slices.Clone(tables), func(t string) bool { return !slices.Contains(all, t) })
}

// RemoveTables removes those of the nft tables that exist.
func RemoveTables(ctx context.Context, tables []string) error {
	found, err := Tables(ctx, tables)
	if err != nil {
		return err
	}
	for _, t := range found {
		argv := append([]string{"nft", "delete", "table"}, strings.Fields(t)...)
		if _, err := Run(ctx, argv...); err != nil {
			return err
		}
	}
	return nil
}
