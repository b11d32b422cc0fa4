//! What every server is put through.

use super::Questions;
use super::questions::NAMES;
use crate::compare::load::Load;
use crate::compare::question::Question;

/// Names that are asked elsewhere.
const FORWARDED: usize = 1000;

/// One way to load a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Workload {
    /// Each of 10,000 names by UDP, as fast as it goes
    Names,
    /// Names under a wildcard and names that do not exist, in turns
    Mix,
    /// Names that another resolver knows and the cache has
    Forwarded,
    /// 40,000 questions a second by UDP
    Latency,
    /// 16 TCP connections with 16 questions on the way in each
    Streams,
    /// dnsperf by UDP
    Dnsperf,
    /// dnsperf by TCP
    DnsperfStreams,
}

impl Workload {
    pub(crate) fn load(self) -> Load {
        const FAST: &[Question] =
            &[Question::PerSecond, Question::CpuPerMillion, Question::UserPerMillion, Question::Lost];
        const FIRST: &[Question] = &[
            Question::PerSecond,
            Question::CpuPerMillion,
            Question::UserPerMillion,
            Question::Lost,
            Question::MibWithNames,
            Question::ReadyMillis,
        ];
        const PACED: &[Question] =
            &[Question::P50Micros, Question::P99Micros, Question::CpuPerMillion, Question::Lost];
        Load::Own(match self {
            Self::Names => FIRST,
            Self::Latency => PACED,
            _ => FAST,
        })
    }

    pub(crate) fn questions(self) -> Questions {
        match self {
            Self::Mix => Questions::mix(NAMES),
            Self::Forwarded => Questions::forwarded(FORWARDED),
            _ => Questions::names(),
        }
    }
}
