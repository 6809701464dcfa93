// Command bench runs the load scenarios of the folder scenarios and holds their
// results against the limits written there. `make load` runs the short set,
// `make load-full` all of it.
//
// A scenario file is one table; each of its rows is one `moq-load fanout` with a
// relay process of its own, the relay on one processor and publishers and viewers
// on another. Limits are about counts and bytes, never about times, so that they
// hold beside other work. With -record the results are kept as JSON, from which
// `make benchmarks-docs` draws docs/benchmarks.
package main
