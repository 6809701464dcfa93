// Package mesh runs relay processes as rings, chains and full meshes, each relay in
// a network namespace of its own on one bridge, and takes them apart: publishers
// come, leave and are killed, links lose every packet and heal. What a publisher
// that comes and goes costs is read from the relays' metrics: messages of
// announcements on every link, routes that are left, requests between relays,
// resident memory. Build tag mesh; "make test-mesh" runs a short round of it, as
// root, because namespaces need that, and "MESHTIME=10m make test-mesh" as much as
// there is: rings, chains and full meshes of 3, 5 and 8, for that long each, and
// 10,000 broadcasts on 8 relays.
package mesh
