//! Much goes through, with a kernel at the other end, also when datagrams get lost.

use std::time::Instant;

use causeway_testkit::soon;

use crate::machine::{alone, world};
use crate::pages::serve;

const PAGE: usize = 20 << 20;

fn bulk(thousandth: u32) {
    alone(async || {
        let (_hub, _stack, arrivals, machine) = world().await;
        if thousandth > 0 {
            machine.lose(thousandth).await;
        }
        serve(arrivals, (0..PAGE).map(|n| (n / 251) as u8).collect());
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("page");
        let path = file.to_str().unwrap();
        let began = Instant::now();
        soon(
            "a download",
            machine.ask("curl", &["-sS", "--max-time", "50", "-o", path, "http://10.96.0.10/"]),
        )
        .await;
        let (downloaded, began) = (began.elapsed(), Instant::now());
        let page = std::fs::read(&file).unwrap();
        assert!(page.len() == PAGE && page.iter().enumerate().all(|(n, byte)| *byte == (n / 251) as u8));
        let data = format!("@{path}");
        let upload = ["-sS", "--max-time", "50", "--data-binary", &data, "http://10.96.0.10/"];
        let said = soon("an upload", machine.ask("curl", &upload)).await;
        assert_eq!(said, format!("got {PAGE}"));
        println!("{thousandth} of 1000 lost: down {downloaded:?}, up {:?}", began.elapsed());
    });
}

#[test]
fn much_goes_through_on_a_clean_cable() {
    bulk(0);
}

#[test]
fn much_goes_through_where_one_in_a_hundred_is_lost() {
    bulk(10);
}
