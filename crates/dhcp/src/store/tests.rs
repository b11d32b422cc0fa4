use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::*;
use crate::lease::State;

fn lease(i: u32, until: u64) -> Lease {
    let address: IpAddr = match i % 3 {
        0 => Ipv6Addr::from(u128::from(i)).into(),
        _ => Ipv4Addr::from(i).into(),
    };
    Lease {
        address,
        state: if i.is_multiple_of(5) { State::Released } else { State::Leased },
        until,
        client: Box::from(&i.to_be_bytes()[..]),
        hardware: Box::from(&[2, 0, 0, 0, 0, i as u8][..]),
        hostname: i.is_multiple_of(2).then(|| format!("vm-{i}").into()),
    }
}

fn sorted(mut leases: Vec<Lease>) -> Vec<Lease> {
    leases.sort_by_key(|lease| lease.address);
    leases
}

#[test]
fn what_is_committed_is_there_again_and_the_last_one_counts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases");
    let (mut store, leases) = Store::open(&path).unwrap();
    assert!(leases.is_empty());
    store.commit(&[lease(1, 10), lease(2, 10)]).unwrap();
    store.commit(&[lease(3, 10), lease(1, 20)]).unwrap();
    let expected = sorted(vec![lease(1, 20), lease(2, 10), lease(3, 10)]);
    assert_eq!(sorted(read(&path).unwrap()), expected, "while it is in use");
    assert!(matches!(Store::open(&path), Err(OpenError::InUse { .. })));
    drop(store);
    let (mut store, leases) = Store::open(&path).unwrap();
    assert_eq!(sorted(leases), expected);
    store.rewrite(&expected).unwrap();
    store.commit(&[lease(4, 40)]).unwrap();
    drop(store);
    let all = sorted(vec![lease(1, 20), lease(2, 10), lease(3, 10), lease(4, 40)]);
    assert_eq!(sorted(Store::open(&path).unwrap().1), all);
}

#[test]
fn damage_of_what_clients_were_told_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases");
    let (mut store, _) = Store::open(&path).unwrap();
    store.commit(&[lease(1, 10)]).unwrap();
    store.commit(&[lease(2, 10)]).unwrap();
    drop(store);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[36] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert!(matches!(Store::open(&path), Err(OpenError::Damaged { place: 16, .. })));
}
