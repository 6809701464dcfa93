// Command moq-relay is the relay and the tools around its configuration.
//
//	moq-relay serve        run the relay
//	moq-relay preflight    look at the machine before a relay starts on it
//	moq-relay validate     check a configuration file
//	moq-relay config       print the configuration that all sources give
//	moq-relay version      print the version
//
// Exit codes: 0 when all is well, 2 for a command line that makes no sense, 78
// for what a user must correct in the configuration or on the machine, 1 for
// the rest.
package main
