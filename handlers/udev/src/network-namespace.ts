import { existsSync, readFileSync, readlinkSync } from 'node:fs'
import path from 'node:path'

/** The user namespace of the machine (linux/proc_ns.h, PROC_USER_INIT_INO). */
const INITIAL_USER_NAMESPACE = 'user:[4026531837]'
/** A setting that the kernel shows in the network namespace of the machine only. */
const INITIAL_NETWORK_SETTING = '/proc/sys/net/core/netdev_max_backlog'

/**
 * Whether udevd runs in the network namespace of this process: its socket is in the list of this
 * namespace. Another namespace has other links with the same numbers, and no events of udevd.
 */
export function udevdSharesNetwork(runUdevRoot: string): boolean {
  const control = path.join(runUdevRoot, 'control')
  try {
    return readFileSync('/proc/net/unix', 'latin1')
      .split('\n')
      .some((line) => line.endsWith(` ${control}`) || line.endsWith(' /run/udev/control'))
  } catch {
    return false
  }
}

/**
 * Whether the kernel sends its events to this network namespace. It sends no events to namespaces
 * that belong to another user namespace than the machine's (kobject_uevent.c,
 * uevent_net_broadcast_untagged).
 */
export function kernelSendsEvents(): boolean {
  try {
    return (
      readlinkSync('/proc/self/ns/user') === INITIAL_USER_NAMESPACE ||
      existsSync(INITIAL_NETWORK_SETTING)
    )
  } catch {
    return true
  }
}
