//! The embedded API server beside a real one: every request of `requests/*.http` goes to both, and the answers are
//! compared field by field, without what must differ (times, uids, revisions).
//!
//! A file is one family of requests, sent in their order, in a namespace of its own. A difference is mended, or it stands
//! in `docs/control-plane.md` under a name, and the request says that name; one that no longer occurs fails the test.

#![allow(clippy::unwrap_used, clippy::panic)]

mod client;
mod difference;
mod documented;
mod manifests;
mod normal;
mod table;
mod world;

use world::World;

/// One test per file, so that a single family can be run by its name.
macro_rules! families {
    ($($family:ident),+ $(,)?) => {
        $(#[test]
        fn $family() {
            if let Some(world) = World::shared() {
                world.compare(stringify!($family));
            }
        })+

        #[test]
        fn every_file_is_a_test() {
            let mut files = table::families();
            let mut tests = vec![$(stringify!($family).to_owned()),+];
            files.sort();
            tests.sort();
            assert_eq!(files, tests);
        }
    };
}

families!(
    access, apply, custom, deletes, discovery, errors, gateways, kinds, openapi, patches, policies, reads,
    watches, writes
);
