//! The list of cases.

use crate::{beside, ends, programs, revisions, rights};

/// A case: receives the arguments after its name, and panics on failure.
pub(crate) type ProcessCase = fn(&[String]);

macro_rules! cases {
    ($($module:ident: $($name:ident),* $(,)?);* $(;)?) => {
        /// Every case with its name.
        pub(crate) const ALL: &[(&str, ProcessCase)] =
            &[$($((concat!(stringify!($module), "::", stringify!($name)), $module::$name as ProcessCase),)*)*];
    };
}

cases! {
    programs:
        arguments_environment_and_folder_arrive,
        standard_descriptors_arrive_and_no_others,
        program_starts_with_default_signals,
        a_listening_socket_can_be_descriptor_0,
        unwanted_start_report_is_not_sent,
        every_failure_names_step_and_cure,
        refused_programs_are_not_started,
        nothing_leaks_in_ten_thousand_starts,
        a_full_socket_makes_requests_wait,
        waiting_requests_are_sent_when_there_is_room,
        answers_wait_for_slow_reader;
    rights:
        user_and_groups_are_taken_on,
        limits_hold,
        new_privileges_are_refused_unless_allowed,
        programs_reach_allowed_paths_only,
        the_umask_is_set,
        the_superuser_is_not_taken_for_granted,
        programs_are_born_in_their_cgroup;
    revisions:
        profiles_that_the_keeper_reads_can_be_used,
        unreadable_configuration_changes_no_profile;
    beside:
        worker_keeps_chosen_descriptors_and_ends_with_socket,
        a_panic_ends_the_process_alone,
        standard_output_is_kept_if_chosen;
    ends:
        exit_status_and_usage_are_reported,
        a_killed_program_takes_its_children_along,
        a_program_that_ends_takes_its_children_along,
        time_is_up_for_the_whole_group,
        requests_not_sent_are_withdrawn,
        a_killed_spawner_is_replaced,
        programs_die_with_their_spawner,
        without_keeper_the_spawner_goes_on,
        spawner_sleeps_after_one_channel_closes,
        without_both_nothing_is_left_to_ask,
        programs_die_with_the_server,
        a_stopped_keeper_leaves_nothing,
        spawner_survives_stop_signals,
        spawner_survives_leased_program,
        server;
}

/// Whether a case is a part of another case, which starts it.
pub(crate) fn is_part(name: &str) -> bool {
    name == "ends::server"
}
