//! Measures the in-memory model of the public `moq-net` crate on the shapes of our Go
//! benchmarks in relay/model, and prints lines of the same form, so that the two can be
//! put side by side. One operation is the whole iteration that a name says: set-up and
//! drop are not timed, payloads have 64 bytes and share one buffer.
//!
//! `peer-bench [FILTER]` runs the benchmarks whose name contains FILTER.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use moq_net::{Timescale, Timestamp, broadcast, frame, group, track};

const PAYLOAD: usize = 64;
/// How long one benchmark is timed, at least.
const TIMED: Duration = Duration::from_millis(250);
/// The most frames that the crate lets a group have.
const GROUP_MOST: usize = 8192;

/// A group with what keeps it alive.
struct Room {
	_broadcast: broadcast::Producer,
	track: track::Producer,
	group: group::Producer,
}

fn room() -> Room {
	let broadcast = broadcast::Producer::new(broadcast::Info::default());
	let info = track::Info::default().with_timescale(Timescale::MILLI);
	let track = broadcast.create_track("bench", info).unwrap();
	let group = track.append_group().unwrap();
	Room { _broadcast: broadcast, track, group }
}

fn filled(frames: usize, payload: &Bytes) -> Room {
	let mut room = room();
	for _ in 0..frames {
		room.group.write_frame(Timestamp::ZERO, payload.clone()).unwrap();
	}
	room.group.finish().unwrap();
	room
}

fn read_single(reader: &mut group::Consumer) {
	while let Some(frame) = reader.read_frame().now_or_never().unwrap().unwrap() {
		black_box(frame);
	}
}

fn read_batches<const N: usize>(reader: &mut group::Consumer, buf: &mut frame::Buffer<N>) {
	loop {
		let batch = reader.read_frames(buf).now_or_never().unwrap().unwrap();
		if batch.is_empty() {
			return;
		}
		for frame in batch.iter() {
			black_box(frame);
		}
	}
}

/// What has been timed of one benchmark.
#[derive(Default)]
struct Timed {
	operations: u64,
	time: Duration,
}

impl Timed {
	fn is_enough(&self) -> bool {
		self.time >= TIMED
	}

	fn add(&mut self, operations: usize, work: impl FnOnce()) {
		let began = Instant::now();
		work();
		self.time += began.elapsed();
		self.operations += operations as u64;
	}

	fn print(&self, name: &str) {
		let nanos = self.time.as_nanos() as f64 / self.operations as f64;
		println!("Benchmark{name}\t{}\t{nanos:.1} ns/op", self.operations);
	}
}

struct Bench {
	filter: String,
	payload: Bytes,
}

impl Bench {
	fn run(&self, name: String, work: impl Fn(&mut Timed)) {
		if !name.contains(&self.filter) {
			return;
		}
		let mut warm = Timed::default();
		work(&mut warm);
		let mut timed = Timed::default();
		while !timed.is_enough() {
			work(&mut timed);
		}
		timed.print(&name);
	}

	/// A whole finished group by one reader.
	fn read_frames(&self) {
		for frames in [4, 5, 32, 33, 512, 2048, 8192] {
			// So many at once that reading the clock costs nothing.
			let rooms = (4096 / frames).max(1);
			self.run(format!("GroupReadFrames/single/{frames}"), |timed| {
				let mut all = self.readers(rooms, frames);
				timed.add(rooms, || all.iter_mut().for_each(|(_, reader)| read_single(reader)));
			});
			macro_rules! batched {
				($size:literal) => {
					self.run(format!("GroupReadFrames/batch{}/{frames}", $size), |timed| {
						let mut all = self.readers(rooms, frames);
						let mut buf = frame::Buffer::<$size>::new();
						timed.add(rooms, || all.iter_mut().for_each(|(_, reader)| read_batches(reader, &mut buf)));
					});
				};
			}
			batched!(4);
			batched!(8);
			batched!(32);
			batched!(128);
		}
	}

	fn readers(&self, rooms: usize, frames: usize) -> Vec<(Room, group::Consumer)> {
		let rooms = (0..rooms).map(|_| filled(frames, &self.payload));
		rooms.map(|room| (room.group.consume(), room)).map(|(reader, room)| (room, reader)).collect()
	}

	/// A finished group read to its end by fresh readers, one after another.
	fn relay_frames(&self) {
		for frames in [4, 512, 8192] {
			for readers in [1, 8, 64] {
				let rooms = (4096 / frames / readers).max(1);
				self.run(format!("GroupRelayFrames/plain/{frames}/{readers}"), |timed| {
					let all: Vec<Room> = (0..rooms).map(|_| filled(frames, &self.payload)).collect();
					let mut fresh: Vec<group::Consumer> =
						all.iter().flat_map(|room| (0..readers).map(|_| room.group.consume())).collect();
					let mut buf = frame::Buffer::<32>::new();
					timed.add(rooms, || fresh.iter_mut().for_each(|reader| read_batches(reader, &mut buf)));
				});
			}
		}
	}

	/// One frame written, then taken by each reader.
	fn paced(&self) {
		for readers in [1, 8, 64] {
			self.run(format!("GroupPaced/{readers}"), |timed| {
				let mut room = room();
				let mut all: Vec<group::Consumer> = (0..readers).map(|_| room.group.consume()).collect();
				timed.add(GROUP_MOST, || {
					for _ in 0..GROUP_MOST {
						room.group.write_frame(Timestamp::ZERO, self.payload.clone()).unwrap();
						for reader in &mut all {
							black_box(reader.read_frame().now_or_never().unwrap().unwrap());
						}
					}
				});
			});
		}
	}

	/// A burst of frames until all readers, spread over threads, have them.
	fn contended(&self) {
		for kind in ["plain", "subscribed"] {
			for burst in [1, 8] {
				for threads in [1, 4, 16] {
					for readers in [16, 256, 1024] {
						let name = format!("GroupContended/{kind}/burst_{burst}/threads_{threads}/{readers}");
						self.run(name, |timed| self.bursts(timed, kind == "subscribed", burst, threads, readers));
					}
				}
			}
		}
	}

	fn bursts(&self, timed: &mut Timed, subscribed: bool, burst: usize, threads: usize, readers: usize) {
		let mut room = room();
		let crowd = Crowd::new(&room, subscribed, threads, readers);
		let rounds = (20_000 / readers).clamp(8, GROUP_MOST / burst);
		timed.add(rounds, || {
			for round in 1..=rounds {
				for _ in 0..burst {
					room.group.write_frame(Timestamp::ZERO, self.payload.clone()).unwrap();
				}
				crowd.wait(round * burst * readers);
			}
		});
		room.group.finish().unwrap();
		crowd.join();
	}
}

/// Readers in threads.
struct Crowd {
	taken: Arc<AtomicUsize>,
	target: Arc<AtomicUsize>,
	threads: Vec<JoinHandle<()>>,
}

impl Crowd {
	fn new(room: &Room, subscribed: bool, threads: usize, readers: usize) -> Self {
		let taken = Arc::new(AtomicUsize::new(0));
		let target = Arc::new(AtomicUsize::new(usize::MAX));
		let writer = thread::current();
		let share = |thread: usize| readers / threads + usize::from(thread < readers % threads);
		let threads = (0..threads).map(|thread| {
			let mine: Vec<_> = (0..share(thread)).map(|_| reader(room, subscribed)).collect();
			let (taken, target, writer) = (taken.clone(), target.clone(), writer.clone());
			thread::spawn(move || {
				let reading = mine.into_iter().map(|(mut reader, _kept)| {
					let (taken, target, writer) = (taken.clone(), target.clone(), writer.clone());
					async move {
						while let Ok(Some(frame)) = reader.read_frame().await {
							black_box(frame);
							if taken.fetch_add(1, Ordering::AcqRel) + 1 == target.load(Ordering::Acquire) {
								writer.unpark();
							}
						}
					}
				});
				futures::executor::block_on(futures::future::join_all(reading));
			})
		});
		let threads = threads.collect();
		Self { taken, target, threads }
	}

	/// Waits until so many frames were taken in all.
	fn wait(&self, frames: usize) {
		self.target.store(frames, Ordering::Release);
		while self.taken.load(Ordering::Acquire) < frames {
			// In case the last frame was taken before the target was known.
			thread::park_timeout(Duration::from_micros(50));
		}
	}

	fn join(self) {
		for thread in self.threads {
			thread.join().unwrap();
		}
	}
}

/// A reader of the room's group, with the subscription that it came from.
fn reader(room: &Room, subscribed: bool) -> (group::Consumer, Option<track::Subscriber>) {
	if !subscribed {
		return (room.group.consume(), None);
	}
	let mut subscriber = room.track.subscribe(None);
	let reader = subscriber.recv_group().now_or_never().unwrap().unwrap().unwrap();
	(reader, Some(subscriber))
}

fn main() {
	let bench = Bench {
		filter: std::env::args().nth(1).unwrap_or_default(),
		payload: Bytes::from(vec![0u8; PAYLOAD]),
	};
	bench.read_frames();
	bench.relay_frames();
	bench.paced();
	bench.contended();
}
