import { readFileSync } from 'node:fs'

/**
 * The memory of a process in MB. `proportional` has its share of pages that several processes map:
 * the more programs of Node.js run, the smaller it is. `dirty` is what the process alone has and no
 * file holds: it depends on no other process, and the kernel cannot take it back.
 */
export function memoryOf(/** @type {number | undefined} */ pid) {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
  const megabytes = (/** @type {string[]} */ ...fields) =>
    fields.reduce(
      (sum, field) => sum + Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(text)?.[1]) / 1024,
      0,
    )
  return {
    resident: megabytes('Rss'),
    proportional: megabytes('Pss'),
    unshared: megabytes('Private_Clean', 'Private_Dirty'),
    dirty: megabytes('Private_Dirty'),
  }
}
