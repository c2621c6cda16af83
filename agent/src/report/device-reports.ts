import { maskUrls } from '@akrijs/runtime'
import type { DeviceReport } from '@akrijs/sdk/handler'

/** The most reasons in a message. */
const SHOWN_REASONS = 5
/** The longest id of a device in a message. */
const SHOWN_ID = 80

/**
 * The reports of all endpoints of a handler. Two endpoints can see the same devices, so the larger
 * number counts.
 *
 * @returns undefined if no endpoint can tell
 */
export function mergeReports(
  all: readonly (readonly DeviceReport[] | undefined)[],
): readonly DeviceReport[] | undefined {
  const reportLists = all.flatMap((reports) => (reports === undefined ? [] : [reports]))
  if (reportLists.length <= 1) return reportLists[0]
  const merged = new Map<string, DeviceReport>()
  for (const report of reportLists.flat()) {
    const key = `${report.listed} ${report.reason}`
    const other = merged.get(key)
    if (other === undefined || report.count > other.count) merged.set(key, report)
  }
  return [...merged.values()].sort((a, b) => b.count - a.count || (a.reason < b.reason ? -1 : 1))
}

/**
 * One line with numbers and examples, such as `2 not offered: 2 x HTTP status 401 (such as
 * 10.0.0.7)`.
 *
 * @param listed whether of the devices that are listed with a problem, or of those left out
 * @returns undefined if there are none
 */
export function deviceReportsText(
  reports: readonly DeviceReport[] = [],
  listed: boolean,
): string | undefined {
  const chosen = reports.filter((report) => report.count > 0 && report.listed === listed)
  if (chosen.length === 0) return undefined
  const total = chosen.reduce((sum, { count }) => sum + count, 0)
  const reasons = chosen.slice(0, SHOWN_REASONS).map(({ reason, count, ids: [first] }) => {
    const example = first === undefined ? '' : ` (such as ${shortId(first)})`
    return `${count} x ${reason}${example}`
  })
  const more = chosen.length - reasons.length
  if (more > 0) reasons.push(more === 1 ? '1 more reason' : `${more} more reasons`)
  return `${total} ${listed ? 'with a problem' : 'not offered'}: ${reasons.join(', ')}`
}

/** The remarks on the discovery as a whole. */
export function remarksOf(reports: readonly DeviceReport[] = []): readonly string[] {
  return reports.filter(({ count }) => count === 0).map(({ reason }) => reason)
}

function shortId(whole: string): string {
  // First, as a URL that is cut shows a part of its password.
  const id = maskUrls(whole)
  return id.length > SHOWN_ID ? `${id.slice(0, SHOWN_ID)}…` : id
}
