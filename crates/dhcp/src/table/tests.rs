use proptest::prelude::*;

use super::*;

fn pool(first: Number, last: Number) -> Pool {
    Pool { range: Some((first, last)), ..Pool::default() }
}

fn client(id: &[u8]) -> Client<'_> {
    Client { id, hardware: id, hostname: None, reserved: None, by_card: false }
}

/// A table of another pool with the same leases.
fn changed(table: &Table, pool: Pool) -> Table {
    let mut changed = Table::new(pool);
    table.leases().cloned().for_each(|lease| changed.load(lease));
    changed
}

fn grant(table: &mut Table, id: &[u8], until: Seconds, now: Seconds) -> Option<Number> {
    let address = table.choose(client(id), None, now)?;
    table.offer(client(id), address, now);
    table.grant(client(id), address, until, now, &mut Vec::new());
    Some(address)
}

#[test]
fn what_was_never_used_goes_first_and_then_what_is_free_for_longest() {
    let mut table = Table::new(pool(10, 12));
    assert_eq!(grant(&mut table, b"a", 300, 0), Some(10));
    assert_eq!(grant(&mut table, b"b", 100, 0), Some(11));
    assert_eq!(grant(&mut table, b"c", 200, 0), Some(12));
    assert_eq!(grant(&mut table, b"d", 900, 99), None);
    assert_eq!(grant(&mut table, b"d", 900, 250), Some(11));
    assert_eq!(grant(&mut table, b"e", 900, 250), Some(12));
    assert_eq!(grant(&mut table, b"a", 900, 800), Some(10), "a client that comes back gets what it had");
}

#[test]
fn exceptions_and_reservations_are_nobody_elses() {
    let mut pool = pool(10, 14);
    pool.except = vec![(10, 11)];
    pool.reserved = HashSet::from([12]);
    let mut table = Table::new(pool);
    assert_eq!(table.pool().size(), 3);
    assert_eq!(table.choose(client(b"a"), Some(11), 0), Some(13));
    assert_eq!(table.choose(client(b"a"), Some(14), 0), Some(14));
    assert_eq!(table.choose(client(b"a"), Some(12), 0), Some(13));
    assert_eq!(table.choose(Client { reserved: Some(12), ..client(b"r") }, Some(14), 0), Some(12));
}

#[test]
fn offers_that_nobody_takes_up_starve_nobody() {
    let mut table = Table::new(pool(1, 2));
    for id in [b"a", b"b", b"c", b"d"] {
        let address = table.choose(client(id), None, 0).unwrap();
        table.offer(client(id), address, 0);
    }
    assert_eq!(table.address_of(b"a"), None);
    table.grant(client(b"d"), 2, 100, 0, &mut Vec::new());
    assert_eq!(table.choose(client(b"e"), None, 0), Some(1));
    table.grant(client(b"e"), 1, 100, 0, &mut Vec::new());
    assert_eq!(table.choose(client(b"f"), None, 50), None);
}

#[test]
fn offers_that_are_over_are_forgotten_but_for_what_a_client_had() {
    let mut table = Table::new(pool(1, 1000));
    grant(&mut table, b"a", 10, 0);
    for id in 100..200_u8 {
        let id = [id];
        let address = table.choose(client(&id), None, 20).unwrap();
        table.offer(client(&id), address, 20);
    }
    table.offer(client(b"a"), 1, 20);
    assert_eq!((table.entries.len(), table.offers.len(), table.by_client.len()), (101, 101, 101));
    assert_eq!(table.leases().count(), 0, "an offer is no lease");
    table.offer(client(b"b"), 500, 60);
    assert_eq!((table.entries.len(), table.offers.len(), table.by_client.len()), (2, 1, 2));
    assert_eq!(table.choose(client(b"a"), None, 60), Some(1));
    assert_eq!(table.choose(client(b"c"), None, 60), Some(2));
}

#[test]
fn a_client_that_changes_gives_back_what_it_had() {
    let mut table = Table::new(pool(1, 9));
    grant(&mut table, b"a", 100, 0);
    let mut changes = Vec::new();
    table.grant(client(b"a"), 5, 100, 10, &mut changes);
    let states: Vec<State> = changes.iter().map(|lease| lease.state).collect();
    assert_eq!(states, [State::Released, State::Leased]);
    assert_eq!((changes[0].until, table.address_of(b"a")), (10, Some(5)));
}

#[test]
fn what_is_declined_is_left_alone_for_its_time() {
    let mut table = Table::new(pool(1, 1));
    grant(&mut table, b"a", 100, 0);
    table.decline(1, &[], 50, 0, &mut Vec::new());
    assert_eq!(table.choose(client(b"a"), Some(1), 49), None);
    assert_eq!(table.choose(client(b"a"), Some(1), 50), Some(1));
}

#[test]
fn replicas_give_different_addresses_and_prolong_each_others() {
    let mut given = HashSet::new();
    for index in 0..2 {
        let mut pool = pool(10, 19);
        pool.replica = Some(Replica { index, of: 2, listens: false });
        let mut table = Table::new(pool);
        for i in 0..5_u8 {
            given.insert(grant(&mut table, &[index, i], 100, 0).unwrap());
        }
        assert_eq!(grant(&mut table, b"more", 100, 0), None);
        let others = 10 + Number::from(1 - index);
        assert!(table.may_have(client(b"of the other"), others, 0));
    }
    assert_eq!(given.len(), 10);
}

#[test]
fn another_range_keeps_what_fits_and_gives_out_nothing_twice() {
    let mut table = Table::new(pool(1, 3));
    for id in [b"a", b"b", b"c"] {
        grant(&mut table, id, 100, 0);
    }
    table = changed(&table, pool(3, 4));
    assert!(!table.may_have(client(b"a"), 1, 10) && table.may_have(client(b"c"), 3, 10));
    assert_eq!(grant(&mut table, b"a", 100, 10), Some(4));
    table = changed(&table, pool(1, 3));
    assert_eq!(table.choose(client(b"d"), None, 50), Some(1), "given back when its client got another");
    assert_eq!(table.choose(client(b"d"), Some(2), 50), Some(1), "another's");
}

#[test]
fn a_client_that_declines_everything_leaves_most_of_the_pool() {
    let mut table = Table::new(pool(1, 40));
    let mut changes = Vec::new();
    for _ in 0..40 {
        let Some(address) = grant(&mut table, b"a", 3600, 0) else { break };
        table.decline(address, &[], 3600, 0, &mut changes);
    }
    let declined = |now| table.leases().filter(|l| l.state == State::Declined && l.until > now).count();
    assert_eq!((declined(0), table.declined.len()), (10, 10));
    assert!(grant(&mut table, b"b", 3600, 0).is_some());
    assert!(changes.iter().any(|lease| lease.state == State::Declined && lease.until == 0), "on disk, too");
}

#[test]
fn who_was_found_to_use_an_address_can_have_it() {
    let mut table = Table::new(pool(1, 2));
    table.decline(1, b"card", 3600, 0, &mut Vec::new());
    let user = Client { hardware: b"card", ..client(b"user") };
    assert!(table.may_have(user, 1, 10) && !table.may_have(client(b"other"), 1, 10));
    assert_eq!(table.choose(user, None, 10), Some(1));
}

#[test]
fn a_card_keeps_its_reservation_by_whatever_identifier() {
    let mut own = pool(1, 9);
    own.reserved = HashSet::from([5]);
    let mut table = Table::new(own);
    let boots = |id| Client { hardware: b"card", reserved: Some(5), ..client(id) };
    table.grant(boots(b"rom"), 5, 3600, 0, &mut Vec::new());
    assert_eq!(table.choose(boots(b"system"), None, 10), Some(5));
    let before = Client { hardware: b"another", ..boots(b"x") };
    assert!(!table.may_have(before, 5, 10), "not while another machine has it");
}

#[test]
fn of_ipv6_no_more_is_remembered_than_memory_has_room_for() {
    let mut pool = pool(1, Number::MAX - 1);
    pool.is_v6 = true;
    let mut table = Table::new(pool);
    for i in 0..MOST_V6 as u32 {
        assert!(grant(&mut table, &i.to_be_bytes(), 100, 0).is_some());
    }
    assert_eq!(grant(&mut table, b"more", 100, 50), None);
    assert!(!table.may_have(client(b"more"), 1 << 100, 50), "also if it is asked for");
    assert_eq!(grant(&mut table, b"more", 200, 100), Some(1), "what is over is another's");
    assert_eq!(table.entries.len(), MOST_V6);
}

#[test]
fn of_what_another_server_gives_its_word_counts() {
    let mut pool = pool(10, 19);
    pool.replica = Some(Replica { index: 0, of: 2, listens: false });
    let mut table = Table::new(pool);
    let mut changes = Vec::new();
    // Before there were two, this one gave 11 away.
    table.grant(client(b"a"), 11, 1000, 0, &mut changes);
    assert_eq!(table.choose(client(b"a"), None, 10), Some(11), "it still has it");
    table.hear(client(b"b"), 11, 1000, 10, &mut changes);
    assert_eq!((table.address_of(b"a"), changes.last().unwrap().state), (None, State::Released));
    assert_eq!(table.choose(client(b"a"), None, 10), Some(10));
    table.hear(client(b"b"), 12, 1000, 10, &mut changes);
    assert_eq!(table.address_of(b"b"), Some(12), "what is ours to give is noted");
    // What is over here may be another's there.
    table.grant(client(b"c"), 13, 20, 10, &mut changes);
    assert_ne!(table.choose(client(b"c"), Some(13), 30), Some(13));
}

#[test]
fn a_new_server_among_others_listens_first() {
    let mut part = pool(10, 19);
    part.replica = Some(Replica { index: 1, of: 2, listens: true });
    let mut table = Table::new(part.clone());
    assert_eq!(table.choose(client(b"new"), Some(11), 0), None, "somebody may have what nobody told of");
    assert!(table.may_have(client(b"old"), 11, 0), "who has an address goes on with it");
    table.hear(client(b"old"), 11, 1000, 0, &mut Vec::new());
    assert_eq!(table.choose(client(b"old"), None, 10), Some(11), "what it knows of is offered again");
    part.replica = Some(Replica { index: 1, of: 2, listens: false });
    let mut table = changed(&table, part);
    assert_eq!(table.choose(client(b"new"), None, 20), Some(13), "beside what it has heard of");
}

proptest! {
    /// Whatever clients do, an address has one client at a time.
    #[test]
    fn no_address_is_given_to_two(steps in prop::collection::vec((0..12_u8, 0..4_u8, 0..40_u64), 1..200)) {
        let mut table = Table::new(pool(1, 6));
        let mut held: HashMap<Number, (u8, Seconds)> = HashMap::new();
        let mut now = 0;
        for (id, step, wait) in steps {
            now += wait / 8;
            let key = [id];
            let own = table.address_of(&key);
            match (step, own) {
                (0, Some(address)) => {
                    table.release(address, now, &mut Vec::new());
                    if held.get(&address).is_some_and(|(holder, _)| *holder == id) {
                        held.remove(&address);
                    }
                }
                (1, _) => {
                    if let Some(address) = table.choose(client(&key), None, now) {
                        table.offer(client(&key), address, now);
                    }
                }
                _ => if let Some(address) = grant(&mut table, &key, now + wait, now) {
                    let before = held.insert(address, (id, now + wait));
                    prop_assert!(before.is_none_or(|(holder, until)| holder == id || until <= now));
                    held.retain(|at, (holder, _)| *holder != id || *at == address);
                }
            }
        }
    }
}
