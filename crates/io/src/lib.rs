//! The door to Linux: io_uring and epoll drivers behind one interface, sockets, affinity.
