//! HTTP/1.1 without sockets: parsing, framing, conditions, ranges, negotiation.
