//! System calls that bypass the C library, because a child that shares its parent's memory shares
//! the parent's `errno` too. The C library also has no `clone3`.

#![allow(unsafe_code)]

use rustix::io::Errno;
use std::ffi::{c_int, c_long, c_void};
#[cfg(target_arch = "aarch64")]
use std::ptr;

/// Makes a system call of up to four arguments.
///
/// # Errors
///
/// The error of the kernel.
///
/// # Safety
///
/// The requirements of the system call.
pub(crate) unsafe fn call(number: c_long, arguments: [usize; 4]) -> Result<isize, Errno> {
    // SAFETY: the caller's responsibility.
    let result = unsafe { raw(number, arguments) };
    match i32::try_from(result) {
        Ok(errno) if (-MAX_ERRNO..0).contains(&errno) => Err(Errno::from_raw_os_error(-errno)),
        _ => Ok(result),
    }
}

/// The highest error number of Linux.
const MAX_ERRNO: i32 = 4095;

#[cfg(target_arch = "x86_64")]
unsafe fn raw(number: c_long, [first, second, third, fourth]: [usize; 4]) -> isize {
    let result;
    // SAFETY: a system call clobbers rcx and r11, and memory that the caller passes for writing.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

#[cfg(target_arch = "aarch64")]
unsafe fn raw(number: c_long, [first, second, third, fourth]: [usize; 4]) -> isize {
    let result;
    // SAFETY: a system call changes x0, and memory that the caller passes for writing.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") first => result,
            in("x1") second,
            in("x2") third,
            in("x3") fourth,
        );
    }
    result
}

/// On other architectures the call goes through the C library, so the parent may see a wrong
/// `errno`.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn raw(number: c_long, [first, second, third, fourth]: [usize; 4]) -> isize {
    // SAFETY: the caller's responsibility.
    match unsafe { libc::syscall(number, first, second, third, fourth) } {
        -1 => {
            -(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO).raw_os_error()
                as isize)
        }
        result => result as isize,
    }
}

/// `clone3(2)` for a child on a stack of its own, because the C library does not offer the call.
/// Returns the child's number, or a negative error number.
///
/// # Safety
///
/// `arguments` must give the child a stack, and `child` must not return before the stack may be
/// freed.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn clone3(
    arguments: &libc::clone_args,
    child: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> i64 {
    let result;
    // SAFETY: in the parent this is a system call, which clobbers rcx and r11. The child begins
    // after the call with the same registers and an empty, aligned stack, calls `child` and ends.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "mov edi, eax",
            "mov eax, {exit}",
            "syscall",
            "ud2",
            "2:",
            exit = const libc::SYS_exit,
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") arguments,
            in("rsi") size_of::<libc::clone_args>(),
            in("r12") child,
            in("r13") argument,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn clone3(
    arguments: &libc::clone_args,
    child: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> i64 {
    let result;
    // SAFETY: in the parent this is a system call, which changes x0 only. The child begins after
    // the call with the same registers and an empty, aligned stack, calls `child` and ends.
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, {argument}",
            "blr {child}",
            "mov x8, {exit}",
            "svc 0",
            "brk 1",
            "2:",
            exit = const libc::SYS_exit,
            child = in(reg) child,
            argument = in(reg) argument,
            inlateout("x0") ptr::from_ref(arguments) => result,
            in("x1") size_of::<libc::clone_args>(),
            in("x8") libc::SYS_clone3,
        );
    }
    result
}

/// Answers like a kernel without `clone3`.
///
/// # Safety
///
/// No requirements.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) unsafe fn clone3(
    _: &libc::clone_args,
    _: extern "C" fn(*mut c_void) -> c_int,
    _: *mut c_void,
) -> i64 {
    -i64::from(libc::ENOSYS)
}
