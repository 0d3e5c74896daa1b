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
        bytes_behind_urgent_data_come,
        half_closed_both_ways,
        reset_while_receiving,
        reset_while_sending,
        closed_with_a_send_queued,
        closed_with_a_send_in_flight,
        closed_while_its_task_waits,
        reading_and_writing_by_two_tasks,
        stale_keys_touch_no_stream,
        sends_one_after_the_other,
        nothing_to_send,
    }
    fresh::{
        bytes_before_first_wait_are_received,
        a_send_waits_before_the_first_receive,
        stream_without_wait_is_released,
        the_end_of_a_connection_made_here_is_known_a_turn_later,
    }
    tries::{
        bytes_and_end_need_no_wait,
        waiting_task_is_woken_after_a_try,
        bytes_come_although_receive_has_not_begun,
        bytes_come_although_no_buffer_is_left,
    }
    flow::{
        slow_reader_gets_every_byte,
        a_file_to_a_slow_reader,
        a_head_and_its_file,
        a_file_shorter_than_thought,
        unread_stream_starves_no_other,
        three_hundred_senders_and_sixteen_buffers,
        reader_with_room_gets_long_and_short_data,
    }
    connecting::{
        stream_reaches_connected_peer,
        connecting_without_listener_fails,
        many_at_once,
        dropped_while_connecting,
        stale_keys,
    }
    listeners::{
        closing_returns_queued_connections,
        discarding_closes_queued_connections,
        closing_wakes_waiting_task,
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
        turn_takes_ready_events,
        driver_drops_with_operations_in_flight,
    }
    sources::{
        ready_as_long_as_there_is_more,
        files_are_refused,
        stale_keys,
        watcher_learns_of_untaken_connections,
    }
    moves::{
        received_bytes_go_along,
        end_and_error_go_along,
        waiting_reader_is_woken_by_the_new_driver,
        blocked_send_resumes_after_move,
        sends_keep_their_order,
        drop_between_two_drivers_closes,
        drop_between_two_drivers_wakes_the_waiting_task,
        listener_keeps_its_connections,
        source_moves_with_its_waiting_task,
        reported_readiness_goes_along,
        source_reports_room,
        echo_survives_a_move_at_every_step,
    }
    releases::{
        waiting_stream_is_released_repeatedly,
        bytes_during_release_are_kept,
        reader_that_continues_receives,
        a_send_under_way_is_not_taken_away,
        the_new_owner_is_the_only_one,
        stale_keys_release_nothing,
    }
    property::{
        bytes_are_those_of_the_model,
    }
}
