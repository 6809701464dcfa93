package model

import (
	"errors"
	"fmt"
)

// Errors that end a request, a subscription, a group or a reader.
var (
	// ErrUnroutable: no usable route covers the path for this peer.
	ErrUnroutable = errors.New("no route to this path")
	// ErrNotFound: the route's source says that there is no such track.
	ErrNotFound = errors.New("no such track")
	// ErrUpstreamTimeout: the source did not answer within Config.UpstreamTimeout.
	ErrUpstreamTimeout = errors.New("the upstream did not answer in time")
	// ErrSourceGone: the session that served the track has ended.
	ErrSourceGone = errors.New("the upstream session is gone")
	// ErrLagged: the reader's next frame was dropped from the group's front; the
	// subscription goes on with the next group.
	ErrLagged = errors.New("reader fell behind what is held of the group")
	// ErrExpired: a newer group made this one too old for the subscriber, or for everyone.
	ErrExpired = errors.New("group is superseded by a newer one")
	// ErrEvicted: the group left the cache by age or for want of room.
	ErrEvicted = errors.New("group was evicted from the cache")
	// ErrFrameTooLarge: the frame's declared size is over Config.MaxFrame or the group's tail.
	ErrFrameTooLarge = errors.New("frame is larger than the limit")
	// ErrNoCapacity: the cache is full and nothing in it may be dropped.
	ErrNoCapacity = errors.New("the cache is full")
	// ErrDuplicate: the track already has or had a group of this number.
	ErrDuplicate = errors.New("group number was used already")
	// ErrOld: the group's number is far below the track's latest.
	ErrOld = errors.New("group number is too far below the latest")
	// ErrClosed: the request, subscription, reader or watcher was closed by its owner.
	ErrClosed = errors.New("closed")
	// ErrCancelled: nobody wants the group or track any more.
	ErrCancelled = errors.New("no longer wanted")
	// errFrameOpen: Finish or BeginFrame was called inside a frame.
	errFrameOpen = errors.New("the frame before is not whole")
)

// An AbortError is the end of a group or track by a peer's stream code. It
// travels with the group, so that viewers get the code that the publisher gave.
type AbortError struct {
	// Code is the peer's error code, as received.
	Code uint64
}

// Error names the code.
func (e *AbortError) Error() string {
	return fmt.Sprintf("aborted by the publisher with code %#x", e.Code)
}
