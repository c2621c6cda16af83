import { workDirectory } from './node-spaces.js'
import { onNode } from './nodes.js'

// A node loses its power and gets it back. Its disk stays: checkpoints and sockets of the kubelet
// and its plugins, and containerd's records of containers.

const SERVICES = ['containerd', 'kubelet'] as const
type Service = (typeof SERVICES)[number]

/**
 * Kills everything on the node except its first process, without a warning. Nothing starts again by
 * itself.
 */
export async function powerOff(node: string): Promise<void> {
  for (const service of SERVICES)
    await onNode(node, 'sh', '-c', `${locate(node, service)} kill -STOP $parent; kill -KILL $pid`)
  await onNode(node, 'sh', '-c', END_CONTAINERS)
}

/** Lets the node start a service. */
export async function powerOn(node: string, service: Service): Promise<void> {
  await onNode(node, 'sh', '-c', `${locate(node, service)} kill -CONT $parent`)
}

/** The parent process of a service starts it again. */
function locate(node: string, service: Service): string {
  return (
    `pid=$(cat ${workDirectory}/nodes/${node}/${service}.pid); ` +
    `parent=$(awk '/^PPid:/ { print $2 }' /proc/$pid/status);`
  )
}

/**
 * Container processes are outside the node's own process namespace. Their shims are killed first,
 * so that they report nothing.
 */
const END_CONTAINERS = `
cd /proc
own=$(readlink self/ns/pid)
for pid in [0-9]*; do
  case $(cat $pid/comm 2>/dev/null) in containerd-shim*) kill -KILL $pid;; esac
done
for pid in [0-9]*; do
  space=$(readlink $pid/ns/pid) || continue
  [ "$space" = "$own" ] || kill -KILL $pid 2>/dev/null || true
done
# What is in memory only.
awk '$2 ~ "^/run/containerd/|^/run/netns/|^/var/lib/kubelet/pods/" { print $2 }' /proc/mounts |
sort -r | while read -r mount; do
  umount -l "$mount" || true
done
rm -rf /run/containerd/* /run/netns/*
# Cgroups too: a kubelet looks for the container of each for three seconds before it starts Pods.
for _ in 1 2 3 4 5; do
  left=$(find /sys/fs/cgroup -depth -type d -path '*/kubepods/*')
  [ -n "$left" ] || break
  rmdir $left 2>/dev/null || sleep 0.1
done
`
