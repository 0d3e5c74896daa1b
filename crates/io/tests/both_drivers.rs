//! Every case of `suite`, on both drivers.
//!
//! A case is a plain function over a driver. The macro makes a test per driver, so a difference in
//! behavior shows as one red test of a pair. Cases that count descriptors of the whole process are
//! in `descriptors.rs`.

mod suite;

macro_rules! on_both_drivers {
    ($($module:ident :: { $($case:ident),* $(,)? })*) => {
        mod epoll {
            $(mod $module { $(
                #[test]
                fn $case() { crate::suite::on_epoll(crate::suite::$module::$case); }
            )* })*
        }
        mod uring {
            $(mod $module { $(
                #[test]
                fn $case() { crate::suite::on_uring(crate::suite::$module::$case); }
            )* })*
        }
    };
}

on_both_drivers! {
    echo::{
        many_sizes,
        many_streams,
        queues_that_are_too_small,
        buffers_that_are_too_small,
    }
    streams::{
        the_end_comes_after_the_bytes,
        half_closed_both_ways,
        reset_while_receiving,
        reset_while_sending,
        closed_with_a_send_queued,
        closed_with_a_send_in_flight,
        closed_while_its_task_waits,
        reading_and_writing_by_two_tasks,
        stale_keys_touch_nobody,
        sends_one_after_the_other,
        nothing_to_send,
    }
    fresh::{
        what_comes_before_the_first_wait_is_heard,
        a_send_waits_before_the_first_receive,
        who_never_waited_is_released,
        the_end_of_a_connection_made_here_is_known_a_turn_later,
    }
    flow::{
        a_slow_reader_gets_everything,
        a_file_to_a_slow_reader,
        a_head_and_its_file,
        a_file_shorter_than_thought,
        an_unread_stream_starves_nobody,
        three_hundred_senders_and_sixteen_buffers,
        a_reader_with_room_gets_what_is_long_and_what_is_short,
    }
    connecting::{
        talks_to_whom_it_connected_to,
        connecting_without_listener_fails,
        many_at_once,
        dropped_while_connecting,
        stale_keys,
    }
    listeners::{
        closing_hands_over_what_is_queued,
        discarding_closes_what_is_queued,
        closing_tells_the_waiting_task,
        more_connections_than_are_held,
        a_crowd_waits_in_the_kernel,
        accepted_sockets_are_ready_for_use,
    }
    turns::{
        unparked_before_the_turn,
        unparked_from_another_thread,
        a_timeout_ends_a_turn,
        busy_polling_changes_nothing_but_the_wait,
        a_send_that_is_waited_for_ends_the_turn,
        a_turn_takes_in_what_has_happened,
        dropped_with_everything_in_flight,
    }
    sources::{
        ready_as_long_as_there_is_more,
        files_are_refused,
        stale_keys,
        a_watcher_is_told_of_what_the_owner_does_not_take,
    }
    moves::{
        received_bytes_go_along,
        end_and_error_go_along,
        waiting_reader_is_woken_by_the_new_driver,
        blocked_send_goes_on_where_it_was,
        sends_keep_their_order,
        drop_between_two_drivers_closes,
        drop_between_two_drivers_wakes_the_waiting_task,
        listener_keeps_its_connections,
        source_moves_with_its_waiting_task,
        source_tells_of_room,
        echo_survives_a_move_at_every_step,
    }
    releases::{
        who_waits_is_released_again_and_again,
        what_comes_meanwhile_is_lost_by_neither,
        who_asks_and_goes_on_receives,
        a_send_under_way_is_not_taken_away,
        the_new_owner_is_the_only_one,
        stale_keys_release_nothing,
    }
    property::{
        bytes_are_those_of_the_model,
    }
}
