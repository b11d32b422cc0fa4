//! Many expressions at once: one pass over a text finds those that match it, for hundreds of them together.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use regex_automata::hybrid::dfa::{Cache, DFA, OverlappingState};
use regex_automata::nfa::thompson::{NFA, WhichCaptures};
use regex_automata::util::pool::Pool;
use regex_automata::{Anchored, Input, MatchKind};

use super::text::{InUse, Regex, keep, whole};

/// So few are tried one by one: that is as quick.
const FEW: usize = 8;
/// How many are compiled together, more or less: an edit of one compiles no more than those anew.
const TOGETHER: u64 = 512;
/// What the expressions of one pass may take; more of them take several passes.
const MAX_SIZE: usize = 2 << 20;
/// What a pass may remember for each of its expressions while it is used, in each thread at work, and in all. If that is too
/// little for what has to be told apart, the expressions are tried one by one.
const MEMORY_EACH: usize = 128 << 10;
const MAX_MEMORY: usize = 8 << 20;
/// How often that may be forgotten, and what has to be read for each state of it until it may be forgotten once more: who sends
/// texts that make it useless gets no more of it.
const FORGOTTEN: usize = 3;
const WORTH: usize = 10;
/// How many texts are tried one by one before somebody who found the budget used up begins once more to remember.
const REST: usize = 1000;
/// How many shares there are of all that may be remembered.
const SHARES: usize = 64;

/// What all passes remember in all threads: with many hosts it would be without end. Who finds it used up tries expressions
/// one by one, and the next of those at work that has more than a share gives it back.
static BUDGET: Budget = Budget::new(64 << 20);

/// Those that are in use, by their texts: most changes of a plan leave them as they are, with all that they remember.
static IN_USE: InUse<Vec<String>, Vec<Pass>> = LazyLock::new(Mutex::default);

/// Expressions that are tried together. Copies share what they are compiled to.
#[derive(Clone, Default)]
pub struct Regexes(Arc<[Chunk]>);

/// Some that stand beside each other.
struct Chunk {
    /// The place of the first.
    first: usize,
    passes: Arc<Vec<Pass>>,
}

impl Regexes {
    /// Compiles.
    pub fn new(regexes: &[Regex]) -> Self {
        let mut first = 0;
        let chunks = regexes.split_inclusive(is_last).map(|regexes| {
            let chunk = Chunk { first, passes: compiled(regexes) };
            first += regexes.len();
            chunk
        });
        Self(chunks.collect())
    }

    /// Calls with the place of each expression that matches all of `text`, in their order, until it is told to stop.
    pub fn matches(&self, text: &str, mut visit: impl FnMut(usize) -> ControlFlow<()>) {
        for Chunk { first, passes } in &*self.0 {
            for pass in &**passes {
                if pass.matches(text, &mut |place| visit(first + place)).is_break() {
                    return;
                }
            }
        }
    }
}

impl fmt::Debug for Regexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passes = self.0.iter().flat_map(|chunk| &*chunk.passes);
        f.debug_list().entries(passes.flat_map(|pass| &pass.regexes)).finish()
    }
}

/// Whether it is the last of its chunk. Its own text says so: what is added, removed or moved before it changes nothing in the
/// chunks that follow.
fn is_last(regex: &Regex) -> bool {
    let mut hasher = DefaultHasher::new();
    regex.as_str().hash(&mut hasher);
    hasher.finish().is_multiple_of(TOGETHER)
}

/// The passes of a chunk.
fn compiled(regexes: &[Regex]) -> Arc<Vec<Pass>> {
    let texts: Vec<String> = regexes.iter().map(|regex| regex.as_str().to_owned()).collect();
    let known = IN_USE.lock().unwrap_or_else(PoisonError::into_inner).get(&texts).and_then(Weak::upgrade);
    known.unwrap_or_else(|| {
        let mut passes = Vec::new();
        add_passes(&mut passes, 0, regexes);
        keep(&IN_USE, texts, Arc::new(passes))
    })
}

/// Expressions that are followed together.
struct Pass {
    /// The place of the first among those of its chunk.
    first: usize,
    regexes: Box<[Regex]>,
    together: Option<Together>,
}

/// Adds passes for expressions, each with as many as it may have.
fn add_passes(passes: &mut Vec<Pass>, first: usize, regexes: &[Regex]) {
    let together = match Together::of(regexes, &BUDGET) {
        Err(TooLarge) if regexes.len() > FEW => {
            let middle = regexes.len() / 2;
            let (these, others) = regexes.split_at(middle);
            add_passes(passes, first, these);
            return add_passes(passes, first + middle, others);
        }
        together => together.ok().flatten(),
    };
    passes.push(Pass { first, regexes: regexes.into(), together });
}

impl Pass {
    fn matches(&self, text: &str, visit: &mut impl FnMut(usize) -> ControlFlow<()>) -> ControlFlow<()> {
        if let Some(together) = &self.together {
            let mut memory = together.memories.get();
            if together.follow(text, &mut memory) {
                return memory.matched.iter().try_for_each(|place| visit(self.first + place));
            }
        }
        let matching = self.regexes.iter().enumerate().filter(|(_, regex)| regex.is_match(text));
        matching.map(|(place, _)| place).try_for_each(|place| visit(self.first + place))
    }
}

struct TooLarge;

/// An automaton of several expressions, made as it is used.
struct Together {
    automaton: DFA,
    memories: Pool<Memory, Box<dyn Fn() -> Memory + Send + Sync>>,
    /// What it takes to remember anything.
    least: usize,
}

impl Together {
    /// Nothing if they are quicker, or only, to be tried one by one.
    fn of(regexes: &[Regex], budget: &'static Budget) -> Result<Option<Self>, TooLarge> {
        if regexes.len() <= FEW {
            return Ok(None);
        }
        // Each of them was read before.
        let Ok(read) = regexes.iter().map(|regex| whole(regex.as_str())).collect::<Result<Vec<_>, _>>()
        else {
            return Ok(None);
        };
        let limits =
            NFA::config().which_captures(WhichCaptures::None).nfa_size_limit(Some(MAX_SIZE)).shrink(false);
        let nfa = match NFA::compiler().configure(limits).build_many_from_hir(&read) {
            Ok(nfa) => nfa,
            Err(error) if error.size_limit().is_some() => return Err(TooLarge),
            Err(_) => return Ok(None),
        };
        let limits = DFA::config()
            .match_kind(MatchKind::All)
            // Who looks for the ends of words is tried alone where there are letters beyond ASCII.
            .unicode_word_boundary(true)
            .minimum_cache_clear_count(Some(FORGOTTEN))
            .minimum_bytes_per_state(Some(WORTH));
        let Ok(least) = limits.get_minimum_cache_capacity(&nfa) else { return Ok(None) };
        let memory = (regexes.len() * MEMORY_EACH).max(2 * least).min(MAX_MEMORY);
        let automaton = DFA::builder().configure(limits.cache_capacity(memory)).build_from_nfa(nfa);
        let Ok(automaton) = automaton else { return Ok(None) };
        let make = move || Memory { budget, cache: None, counted: 0, rest: 0, matched: Vec::new() };
        Ok(Some(Self { automaton, memories: Pool::new(Box::new(make)), least }))
    }

    /// Notes the places of what matches, in their order; whether it could be told.
    fn follow(&self, text: &str, memory: &mut Memory) -> bool {
        memory.matched.clear();
        if !memory.may_begin(self.least) {
            return false;
        }
        let cache = memory.cache.get_or_insert_with(|| self.automaton.create_cache());
        let input = Input::new(text).anchored(Anchored::Yes);
        let mut state = OverlappingState::start();
        let is_told = loop {
            if self.automaton.try_search_overlapping_fwd(cache, &input, &mut state).is_err() {
                break false;
            }
            match state.get_match() {
                Some(found) => memory.matched.push(found.pattern().as_usize()),
                None => break true,
            }
        };
        memory.count();
        memory.matched.sort_unstable();
        is_told
    }
}

/// What is remembered of an automaton by whoever uses it at a time.
struct Memory {
    budget: &'static Budget,
    cache: Option<Cache>,
    /// What it has of the budget.
    counted: usize,
    /// How many texts it leaves to others before it begins once more.
    rest: usize,
    /// The places of what matched last.
    matched: Vec<usize>,
}

impl Memory {
    /// Whether there is something, or room for it.
    fn may_begin(&mut self, least: usize) -> bool {
        if self.cache.is_some() {
            return true;
        }
        if self.rest > 0 {
            self.rest -= 1;
            return false;
        }
        let has_room = self.budget.has_room(least);
        if !has_room {
            self.budget.is_wanted.store(true, Relaxed);
        }
        has_room
    }

    /// Counts what there is by now. If that is more than there may be, or others wait for a part of it, all of it is forgotten.
    fn count(&mut self) {
        let now = self.cache.as_ref().map_or(0, Cache::memory_usage);
        let grew = now > self.counted;
        self.budget.exchange(self.counted, now);
        self.counted = now;
        let is_too_much = grew && !self.budget.has_room(0);
        if is_too_much {
            self.budget.is_wanted.store(true, Relaxed);
        }
        let is_large = now > self.budget.limit / SHARES;
        if is_too_much || (is_large && self.budget.is_wanted.swap(false, Relaxed)) {
            self.cache = None;
            self.budget.exchange(now, 0);
            self.counted = 0;
            self.rest = REST;
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.budget.exchange(self.counted, 0);
    }
}

/// Memory that many share.
struct Budget {
    limit: usize,
    used: AtomicUsize,
    /// Whether somebody found no room.
    is_wanted: AtomicBool,
}

impl Budget {
    const fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0), is_wanted: AtomicBool::new(false) }
    }

    fn has_room(&self, more: usize) -> bool {
        self.used.load(Relaxed).saturating_add(more) <= self.limit
    }

    /// Counts one amount in the place of another that was counted.
    fn exchange(&self, before: usize, now: usize) {
        if now > before {
            self.used.fetch_add(now - before, Relaxed);
        } else if now < before {
            self.used.fetch_sub(before - now, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(texts: &[impl AsRef<str>]) -> Vec<Regex> {
        texts.iter().map(|text| Regex::parse(text.as_ref()).unwrap()).collect()
    }

    fn matching(regexes: &Regexes, text: &str) -> Vec<usize> {
        let mut places = Vec::new();
        regexes.matches(text, |place| {
            places.push(place);
            ControlFlow::Continue(())
        });
        places
    }

    fn one_by_one(regexes: &[Regex], text: &str) -> Vec<usize> {
        let matching = regexes.iter().enumerate().filter(|(_, regex)| regex.is_match(text));
        matching.map(|(place, _)| place).collect()
    }

    fn passes(regexes: &Regexes) -> Vec<&Pass> {
        regexes.0.iter().flat_map(|chunk| &*chunk.passes).collect()
    }

    fn are_together(regexes: &Regexes) -> bool {
        passes(regexes).iter().all(|pass| pass.together.is_some())
    }

    /// What is remembered of the compiled ones.
    fn places(regexes: &Regexes) -> Vec<*const Vec<Pass>> {
        regexes.0.iter().map(|chunk| Arc::as_ptr(&chunk.passes)).collect()
    }

    /// Letters in no order.
    struct Letters(u64);

    impl Letters {
        fn text(&mut self) -> String {
            let mut letter = || {
                self.0 =
                    self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                if self.0 >> 63 == 0 { 'a' } else { 'b' }
            };
            (0..500).map(|_| letter()).collect()
        }
    }

    #[test]
    fn those_that_match_the_whole_are_told_in_their_order_until_it_is_enough() {
        let mut texts: Vec<String> = (0..20).map(|i| format!("/other/{i}")).collect();
        texts.extend(
            ["/a/[0-9]+", "/a/.*", "a/1", "(?i)/A/1", "/a/1|/b", "/a/1", "/a/\\w\\b.*"].map(String::from),
        );
        let all = Regexes::new(&parsed(&texts));
        assert!(are_together(&all) && passes(&all).len() == 1);
        assert_eq!(matching(&all, "/a/1"), [20, 21, 23, 24, 25, 26]);
        assert_eq!(matching(&all, "/b"), [24]);
        assert_eq!(matching(&all, "/a/1\n"), [0; 0]);
        // The end of a word beyond ASCII can't be told together.
        assert_eq!(matching(&all, "/a/ä"), [21, 26]);
        assert_eq!(matching(&all, "/other/7"), [7]);
        assert_eq!(matching(&all, ""), [0; 0]);
        let mut first = None;
        all.matches("/a/1", |place| {
            first = Some(place);
            ControlFlow::Break(())
        });
        assert_eq!(first, Some(20));
        assert_eq!(places(&all), places(&Regexes::new(&parsed(&texts))), "compiled once");
        assert_eq!(matching(&Regexes::default(), "/a"), [0; 0]);
    }

    #[test]
    fn what_is_too_large_for_one_pass_takes_several() {
        let texts: Vec<String> = (0..100).map(|i| format!("(a{{1000}}b){{1,2}}{i}")).collect();
        let regexes = parsed(&texts);
        let all = Regexes::new(&regexes);
        assert!(passes(&all).len() > 1 && are_together(&all), "{}", passes(&all).len());
        let text = |i: usize| format!("{}b{i}", "a".repeat(1000));
        for i in [0, 1, 49, 50, 98, 99] {
            assert_eq!(matching(&all, &text(i)), [i]);
        }
        assert_eq!(matching(&all, &text(100)), [0; 0]);
    }

    #[test]
    fn what_would_have_to_be_remembered_without_end_is_tried_one_by_one() {
        // Whoever follows these together has to tell apart each way in which the last letters can be.
        let texts: Vec<String> = (10..20).map(|i| format!("[ab]*a[ab]{{{i}}}")).collect();
        let regexes = parsed(&texts);
        let all = Regexes::new(&regexes);
        assert!(are_together(&all));
        let mut letters = Letters(1);
        let mut gave_up = false;
        for text in (0..2000).map(|_| letters.text()) {
            assert_eq!(matching(&all, &text), one_by_one(&regexes, &text));
            let together = passes(&all)[0].together.as_ref().unwrap();
            let mut memory = together.memories.get();
            assert!(memory.counted <= regexes.len() * MEMORY_EACH + 4096, "{}", memory.counted);
            gave_up |= !together.follow(&text, &mut memory);
            if gave_up {
                break;
            }
        }
        assert!(gave_up);
    }

    #[test]
    fn an_edit_compiles_what_is_around_it_and_nothing_else() {
        let mut texts: Vec<String> = (0..4000).map(|i| format!("/a/{i}/[0-9]+")).collect();
        let before = Regexes::new(&parsed(&texts));
        texts[1000] = "/another/.*".to_owned();
        texts.remove(3000);
        let after = Regexes::new(&parsed(&texts));
        let known = places(&before);
        assert!(known.len() > 4, "{}", known.len());
        let new = places(&after).into_iter().filter(|place| !known.contains(place)).count();
        assert!((1..=4).contains(&new), "{new} of {}", known.len());
        assert_eq!(matching(&after, "/another/one"), [1000]);
        assert_eq!(matching(&after, "/a/3999/1"), [3998]);
        assert_eq!(matching(&after, "/a/3000/1"), [0; 0]);
    }

    #[test]
    fn all_of_them_together_remember_no_more_than_they_may() {
        static SMALL: Budget = Budget::new(256 << 10);
        let used = || SMALL.used.load(Relaxed);
        let regexes = parsed(&(10..20).map(|i| format!("[ab]*a[ab]{{{i}}}")).collect::<Vec<_>>());
        let pass = |regexes: &[Regex]| {
            let together = Together::of(regexes, &SMALL).ok().flatten();
            Pass { first: 0, regexes: regexes.into(), together }
        };
        let (one, other) = (pass(&regexes), pass(&regexes));
        let follow = |pass: &Pass, text: &str| {
            let together = pass.together.as_ref().unwrap();
            let mut memory = together.memories.get();
            together.follow(text, &mut memory)
        };
        // What needs little finds room, and keeps it whatever others need.
        assert!(follow(&one, "b") && used() > 0);
        let little = used();
        let mut letters = Letters(1);
        let mut refused = 0;
        for text in (0..50).map(|_| letters.text()) {
            refused += usize::from(!follow(&other, &text));
            assert!(used() <= SMALL.limit, "{}", used());
            let mut found = Vec::new();
            let matched = other.matches(&text, &mut |place| {
                found.push(place);
                ControlFlow::Continue(())
            });
            assert!(matched.is_continue());
            assert_eq!(found, one_by_one(&regexes, &text));
        }
        assert!(refused > 0 && follow(&one, "b"));
        drop(other);
        assert_eq!(used(), little);
        drop(one);
        assert_eq!(used(), 0);
    }

    #[test]
    fn who_remembers_much_gives_it_back_when_others_find_no_room() {
        static SMALL: Budget = Budget::new(2 << 20);
        let regexes = parsed(&(10..20).map(|i| format!("[ab]*a[ab]{{{i}}}")).collect::<Vec<_>>());
        let (hog, other) = (Together::of(&regexes, &SMALL), Together::of(&regexes, &SMALL));
        let (hog, other) = (hog.ok().flatten().unwrap(), other.ok().flatten().unwrap());
        let mut letters = Letters(1);
        let mut follow = |together: &Together| {
            let mut memory = together.memories.get();
            together.follow(&letters.text(), &mut memory);
            memory.counted
        };
        // It has all that it may have by itself, and that leaves too little for another one.
        let most = (0..500).map(|_| follow(&hog)).max().unwrap();
        assert!(most > SMALL.limit / 2, "{most}");
        let refused = (0..500).any(|_| follow(&other) == 0);
        assert!(refused, "there was room for both");
        assert_eq!(follow(&hog), 0, "it is given back");
        let again = (0..2 * REST).any(|_| follow(&other) > 0);
        assert!(again, "there is room for the other one");
    }

    proptest! {
        #[test]
        fn together_they_match_what_they_match_one_by_one(
            texts in prop::collection::vec("(/[ab.]{1,3}[*+?]?|\\[ab\\]|\\(a\\|b\\)|\\\\b|\\$){1,4}", 9..40),
            words in prop::collection::vec("[/abä]{0,8}", 1..20),
        ) {
            let regexes: Vec<Regex> = texts.iter().filter_map(|text| Regex::parse(text).ok()).collect();
            let all = Regexes::new(&regexes);
            for word in &words {
                prop_assert_eq!(matching(&all, word), one_by_one(&regexes, word), "{} in {:?}", word, texts);
            }
        }
    }
}
