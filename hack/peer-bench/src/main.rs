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
use futures::executor::block_on;
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
			// So many readers of one group that looking at the clock costs nothing.
			let readers = (4096 / frames).max(1);
			self.run(format!("GroupReadFrames/single/{frames}"), |timed| {
				let (_room, mut all) = self.readers(readers, frames);
				timed.add(readers, || all.iter_mut().for_each(read_single));
			});
			macro_rules! batched {
				($size:literal) => {
					self.run(format!("GroupReadFrames/batch{}/{frames}", $size), |timed| {
						let (_room, mut all) = self.readers(readers, frames);
						let mut buf = frame::Buffer::<$size>::new();
						timed.add(readers, || all.iter_mut().for_each(|reader| read_batches(reader, &mut buf)));
					});
				};
			}
			batched!(4);
			batched!(8);
			batched!(32);
			batched!(128);
		}
	}

	fn readers(&self, readers: usize, frames: usize) -> (Room, Vec<group::Consumer>) {
		let room = filled(frames, &self.payload);
		let all = (0..readers).map(|_| room.group.consume()).collect();
		(room, all)
	}

	/// A finished group read to its end by fresh readers, one after another.
	fn relay_frames(&self) {
		for frames in [4, 512, 8192] {
			for readers in [1, 8, 64] {
				let times = (4096 / frames / readers).max(1);
				self.run(format!("GroupRelayFrames/plain/{frames}/{readers}"), |timed| {
					let (_room, mut fresh) = self.readers(times * readers, frames);
					let mut buf = frame::Buffer::<32>::new();
					timed.add(times, || fresh.iter_mut().for_each(|reader| read_batches(reader, &mut buf)));
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

	/// A burst of frames until readers on so many threads, each with its share of them
	/// one after another, have all of it.
	fn contended(&self) {
		for burst in [1, 8] {
			for threads in [1, 4, 16] {
				for readers in [16, 256, 1024] {
					let shape = format!("burst_{burst}/threads_{threads}/{readers}");
					self.run(format!("GroupContended/plain/{shape}"), |timed| self.plain(timed, burst, threads, readers));
					self.run(format!("GroupContended/subscribed/{shape}"), |timed| {
						self.subscribed(timed, burst, threads, readers);
					});
				}
			}
		}
	}

	/// All bursts are frames of one group.
	fn plain(&self, timed: &mut Timed, burst: usize, threads: usize, readers: usize) {
		let mut room = room();
		let rounds = GROUP_MOST / burst / 4;
		let crowd = Crowd::new(threads, readers, rounds, |_| {
			let mut reader = room.group.consume();
			move || {
				for _ in 0..burst {
					black_box(block_on(reader.read_frame()).unwrap().unwrap());
				}
			}
		});
		timed.add(rounds, || {
			for round in 1..=rounds {
				for _ in 0..burst {
					room.group.write_frame(Timestamp::ZERO, self.payload.clone()).unwrap();
				}
				crowd.wait(round);
			}
		});
		crowd.join();
	}

	/// Each burst is a group of its own, which a reader gets from its subscription.
	fn subscribed(&self, timed: &mut Timed, burst: usize, threads: usize, readers: usize) {
		let room = room();
		let rounds = 256;
		let crowd = Crowd::new(threads, readers, rounds, |_| {
			let wanted = track::Subscription::default().with_max_age(Duration::from_secs(3600)).with_groups(1..);
			let mut subscriber = room.track.subscribe(wanted);
			move || {
				let mut reader = block_on(subscriber.recv_group()).unwrap().unwrap();
				for _ in 0..burst {
					black_box(block_on(reader.read_frame()).unwrap().unwrap());
				}
			}
		});
		timed.add(rounds, || {
			for round in 1..=rounds {
				let mut group = room.track.append_group().unwrap();
				for _ in 0..burst {
					group.write_frame(Timestamp::ZERO, self.payload.clone()).unwrap();
				}
				group.finish().unwrap();
				crowd.wait(round);
			}
		});
		crowd.join();
	}
}

/// Threads that each take a burst for all of their readers, again and again.
struct Crowd {
	done: Arc<AtomicUsize>,
	threads: Vec<JoinHandle<()>>,
}

impl Crowd {
	fn new<T: FnMut() + Send + 'static>(threads: usize, readers: usize, rounds: usize, make: impl Fn(usize) -> T) -> Self {
		let done = Arc::new(AtomicUsize::new(0));
		let writer = thread::current();
		let share = readers / threads + usize::from(readers % threads > 0);
		let threads = (0..threads).map(|_| {
			let mut mine: Vec<T> = (0..share).map(&make).collect();
			let (done, writer) = (done.clone(), writer.clone());
			thread::spawn(move || {
				for _ in 0..rounds {
					mine.iter_mut().for_each(|take| take());
					done.fetch_add(1, Ordering::AcqRel);
					writer.unpark();
				}
			})
		});
		Self { threads: threads.collect(), done }
	}

	/// Waits until every thread has had so many bursts.
	fn wait(&self, rounds: usize) {
		while self.done.load(Ordering::Acquire) < rounds * self.threads.len() {
			thread::park();
		}
	}

	fn join(self) {
		for thread in self.threads {
			thread.join().unwrap();
		}
	}
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
