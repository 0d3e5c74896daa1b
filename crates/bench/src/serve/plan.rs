//! The plan: the requests, the paths of packets, the servers, and the metrics of each.

use crate::network::BenchNetwork;
use crate::peers::vermeil::VermeilIo;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestKind {
    /// A page of 1 KB.
    OneK,
    /// A picture of 20 KB.
    TwentyK,
    /// An archive of 1 MB.
    OneM,
    /// A path that does not exist.
    NotFound,
    /// The page of 1 KB, which has not changed.
    NotModified,
}

impl RequestKind {
    /// Every kind, in the order of the tables.
    pub const ALL: [Self; 5] = [Self::OneK, Self::TwentyK, Self::OneM, Self::NotFound, Self::NotModified];

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneK => "1k",
            Self::TwentyK => "20k",
            Self::OneM => "1m",
            Self::NotFound => "404",
            Self::NotModified => "304",
        }
    }

    /// The name and size in bytes of the requested file; without a size there is no file.
    pub fn file(self) -> (&'static str, Option<usize>) {
        match self {
            Self::OneK | Self::NotModified => ("1k.html", Some(1 << 10)),
            Self::TwentyK => ("20k.jpg", Some(20 << 10)),
            Self::OneM => ("1m.bin", Some(1 << 20)),
            Self::NotFound => ("missing.html", None),
        }
    }

    /// The status every response must have.
    pub fn status(self) -> u16 {
        match self {
            Self::OneK | Self::TwentyK | Self::OneM => 200,
            Self::NotFound => 404,
            Self::NotModified => 304,
        }
    }
}

/// The way of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PacketWay {
    /// Over loopback, where part of the server's receive work is charged to the load.
    Loopback,
    /// Between two namespaces, each side's receive work on a separate core.
    OwnReceive,
}

impl PacketWay {
    /// The way packets take over `network`.
    pub fn of(network: &BenchNetwork) -> Self {
        match network {
            BenchNetwork::Loopback => Self::Loopback,
            BenchNetwork::Veth(_) => Self::OwnReceive,
        }
    }
}

/// The program of a row: a request over a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServeProgram {
    /// The way of the packets.
    pub way: PacketWay,
    /// The request.
    pub request: RequestKind,
}

impl ServeProgram {
    /// The programs that go over `way`.
    pub fn over(way: PacketWay) -> Vec<Self> {
        let requests: &[RequestKind] = match way {
            PacketWay::Loopback => &RequestKind::ALL,
            PacketWay::OwnReceive => &[RequestKind::OneK, RequestKind::TwentyK, RequestKind::OneM],
        };
        requests.iter().map(|&request| Self { way, request }).collect()
    }

    /// The program that determines this program's tuning, because a way to send bodies is tuned on
    /// bodies.
    pub fn tuned_as(self) -> Self {
        let request = match self.request {
            RequestKind::NotFound | RequestKind::NotModified => RequestKind::OneK,
            with_body => with_body,
        };
        Self { request, ..self }
    }

    /// The name in rows.
    pub fn name(self) -> String {
        let suffix = if self.way == PacketWay::OwnReceive { "+rx" } else { "" };
        format!("{}{suffix}", self.request.name())
    }
}

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServedBy {
    /// Vermeil with a driver.
    Vermeil(VermeilIo),
    /// nginx with the best way to send bodies for each request.
    Nginx,
    /// nginx with `sendfile on`, as packages ship nginx, for every request.
    NginxSendfile,
    /// Apache httpd.
    Apache,
    /// The least possible work, with a kernel interface.
    Floor(VermeilIo),
}

impl ServedBy {
    /// Every server, in the order of the tables.
    pub const ALL: [Self; 7] = [
        Self::Vermeil(VermeilIo::Uring),
        Self::Vermeil(VermeilIo::Epoll),
        Self::Nginx,
        Self::NginxSendfile,
        Self::Apache,
        Self::Floor(VermeilIo::Epoll),
        Self::Floor(VermeilIo::Uring),
    ];

    /// The name in rows and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vermeil(VermeilIo::Uring) => "vermeil-uring",
            Self::Vermeil(VermeilIo::Epoll) => "vermeil-epoll",
            Self::Nginx => "nginx",
            Self::NginxSendfile => "nginx-sendfile",
            Self::Apache => "apache",
            Self::Floor(VermeilIo::Epoll) => "floor-epoll",
            Self::Floor(VermeilIo::Uring) => "floor-uring",
        }
    }

    /// The server called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|server| server.name() == name)
    }

    /// The color of the bars: one hue per program, so that neighbours differ even without color.
    pub fn color(self) -> &'static str {
        match self {
            Self::Vermeil(VermeilIo::Uring) => "#c8402a",
            Self::Vermeil(VermeilIo::Epoll) => "#e8947f",
            Self::Nginx => "#2f7d4f",
            Self::NginxSendfile => "#8fbf9f",
            Self::Apache => "#6a5acd",
            Self::Floor(VermeilIo::Epoll) => "#b8b8b8",
            Self::Floor(VermeilIo::Uring) => "#8a8a8a",
        }
    }

    /// Returns whether the server is a floor.
    pub fn is_floor(self) -> bool {
        matches!(self, Self::Floor(_))
    }
}

/// The measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServeMetric {
    /// Cpu time of the server per request.
    CpuUs,
    /// Cpu time of server and load per request.
    BothUs,
    /// Requests per second.
    PerS,
    /// Median latency.
    P50Us,
    /// 99th percentile of latency.
    P99Us,
    /// Cpu time relative to the floor with the lower median, in the same round.
    RatioFloor,
    /// Cpu time relative to nginx in the same round.
    RatioNginx,
    /// Cpu time of server and load relative to nginx in the same round.
    BothRatioNginx,
}

impl ServeMetric {
    /// Every metric, in the order of the rows.
    pub const ALL: [Self; 8] = [
        Self::CpuUs,
        Self::BothUs,
        Self::PerS,
        Self::P50Us,
        Self::P99Us,
        Self::RatioFloor,
        Self::RatioNginx,
        Self::BothRatioNginx,
    ];

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuUs => "cpu_us",
            Self::BothUs => "both_us",
            Self::PerS => "per_s",
            Self::P50Us => "p50_us",
            Self::P99Us => "p99_us",
            Self::RatioFloor => "ratio_floor",
            Self::RatioNginx => "ratio_nginx",
            Self::BothRatioNginx => "both_ratio_nginx",
        }
    }

    /// The unit in rows.
    pub fn unit(self) -> &'static str {
        match self {
            Self::CpuUs | Self::BothUs | Self::P50Us | Self::P99Us => "us",
            Self::PerS => "req/s",
            Self::RatioFloor | Self::RatioNginx | Self::BothRatioNginx => "ratio",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_found_by_their_names() {
        for server in ServedBy::ALL {
            assert_eq!(ServedBy::from_name(server.name()), Some(server));
        }
        assert_eq!(ServedBy::from_name("iis"), None);
    }

    #[test]
    fn programs_say_their_way() {
        let names = |way| ServeProgram::over(way).into_iter().map(ServeProgram::name).collect::<Vec<_>>();
        assert_eq!(names(PacketWay::Loopback), ["1k", "20k", "1m", "404", "304"]);
        assert_eq!(names(PacketWay::OwnReceive), ["1k+rx", "20k+rx", "1m+rx"]);
    }
}
