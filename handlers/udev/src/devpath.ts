import path from 'node:path'

/**
 * Whether a path is equal to another or below it, by whole components: `1-1` is not above `1-10`.
 */
export function isWithin(devpath: string, above: string): boolean {
  return devpath === above || devpath.startsWith(`${above}/`)
}

/** Whether a path is one of these paths, or below one of them. */
export function isWithinAny(devpath: string, paths: { has(path: string): boolean }): boolean {
  if (paths.has(devpath)) return true
  for (const ancestor of ancestorsOf(devpath)) if (paths.has(ancestor)) return true
  return false
}

/** The paths above a path of a device, from the nearest to the topmost. */
export function* ancestorsOf(devpath: string): Generator<string> {
  for (
    let up = path.dirname(devpath);
    up !== '/devices' && up.startsWith('/devices/');
    up = path.dirname(up)
  )
    yield up
}
