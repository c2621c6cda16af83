import { maskUrls, messageOf, printable } from '@akrijs/runtime'
import type { DeviceReport, ReportedDevice } from './handler/handler.js'

/** The devices of one list about which a handler tells people, all left out or all listed. */
export interface ReportedDevices {
  /** The first of them, each id once. */
  readonly devices: readonly ReportedDevice[]
  /** The number of devices by reason, in the order of the first device. */
  readonly reasons: ReadonlyMap<string, number>
}

/** The remarks of a handler on the discovery as a whole, until its next list. */
export class RemarkCollector {
  #remarks = new Set<string>()

  add(text: unknown): void {
    if (this.#remarks.size < MAX_REMARKS) this.#remarks.add(textOf(text, MAX_LENGTHS.remark))
  }

  take(): readonly string[] {
    const taken = [...this.#remarks]
    this.#remarks = new Set()
    return taken
  }
}

/** Limits: the texts and the number of devices come from hosts of the network. */
const MAX_DEVICES = 200
const MAX_COUNTED = 10_000
const MAX_REASONS = 20
const MAX_REMARKS = 5
const MAX_LENGTHS = { id: 300, reason: 100, remark: 200, detail: 500 } as const
/** So many characters of a text are searched for passwords. */
const MAX_URLS = 8 * 1024
const OTHER_REASONS = 'other reasons'

/** Collects the reports of a handler until its next list. */
export class DeviceReportCollector {
  #ids = new Set<string>()
  #devices: ReportedDevice[] = []
  #reasons = new Map<string, number>()

  /** Takes any values: at run time a handler is JavaScript. The first report of an id counts. */
  add(id: unknown, reason: unknown, detail?: unknown): void {
    const key = idText(id)
    if (this.#ids.has(key) || this.#ids.size >= MAX_COUNTED) return
    this.#ids.add(key)
    const text = textOf(reason, MAX_LENGTHS.reason)
    const isKept = this.#reasons.has(text) || this.#reasons.size < MAX_REASONS
    const counted = isKept ? text : OTHER_REASONS
    this.#reasons.set(counted, (this.#reasons.get(counted) ?? 0) + 1)
    if (this.#devices.length >= MAX_DEVICES) return
    const more = detail === undefined ? {} : { detail: textOf(detail, MAX_LENGTHS.detail) }
    this.#devices.push({ id: key, reason: text, ...more })
  }

  /** All reports since the last call. */
  take(): ReportedDevices {
    const taken = { devices: this.#devices, reasons: this.#reasons }
    this.#ids = new Set()
    this.#devices = []
    this.#reasons = new Map()
    return taken
  }
}

export const NO_REPORTED_DEVICES: ReportedDevices = { devices: [], reasons: new Map() }

export function equalReportedDevices(a: ReportedDevices, b: ReportedDevices): boolean {
  const text = ({ devices, reasons }: ReportedDevices) => JSON.stringify([devices, [...reasons]])
  return text(a) === text(b)
}

/** The number of the devices. */
export function countOf({ reasons }: ReportedDevices): number {
  return [...reasons.values()].reduce((sum, count) => sum + count, 0)
}

/** One line, such as `3 not offered: 2 x HTTP status 401, 1 x filtered by scopes`. */
export function leftOutSummary(leftOut: ReportedDevices): string {
  return `${countOf(leftOut)} not offered: ${reasonsText(leftOut)}`
}

/** One line, such as `2 with a problem: 2 x credential refused`. */
export function problemsSummary(problems: ReportedDevices): string {
  return `${countOf(problems)} with a problem: ${reasonsText(problems)}`
}

function reasonsText({ reasons }: ReportedDevices): string {
  const counts = [...reasons].sort(([, a], [, b]) => b - a)
  return counts.map(([reason, count]) => `${count} x ${reason}`).join(', ')
}

/** Limits of what an agent gets with a list, and what it takes of any handler. */
const MAX_REPORTS = 2 * (MAX_REASONS + 1) + MAX_REMARKS
const MAX_REPORTED_IDS = 100

/**
 * What an agent gets with a list: remarks, and the reasons, with one device that is left out for
 * each reason, and the first devices that have a problem. It is the same for the same devices in
 * any order.
 */
export function deviceReports({
  leftOut,
  problems,
  remarks,
}: {
  readonly leftOut: ReportedDevices
  readonly problems: ReportedDevices
  readonly remarks: readonly string[]
}): readonly DeviceReport[] {
  const reports = (all: ReportedDevices, listed: boolean, mostIds: number): DeviceReport[] =>
    [...all.reasons]
      .sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))
      .map(([reason, count]) => {
        const ofReason = all.devices.filter((device) => device.reason === reason)
        const ids = ofReason.map(({ id }) => id).sort()
        return { reason, count, ids: ids.slice(0, mostIds), listed }
      })
  return boundReports([
    ...remarks.map((reason) => ({ reason, count: 0, ids: [], listed: false })),
    ...reports(problems, true, MAX_REPORTED_IDS),
    ...reports(leftOut, false, 1),
  ])
}

/** The reports within the limits, as texts for people. Takes the reports of any handler. */
export function boundReports(reports: readonly DeviceReport[]): readonly DeviceReport[] {
  let room = MAX_REPORTED_IDS
  return reports.slice(0, MAX_REPORTS).map(({ reason, count, ids, listed }) => {
    const kept = ids.slice(0, room).map((id) => idText(id))
    room -= kept.length
    return { reason: textOf(reason, MAX_LENGTHS.remark), count, ids: kept, listed }
  })
}

/** The id as in the list of devices: the agent finds the device by it. */
function idText(id: unknown): string {
  return cut(printable(asText(id).slice(0, MAX_LENGTHS.id + 1)), MAX_LENGTHS.id)
}

/** A text for people, without passwords of URLs. */
function textOf(value: unknown, maxLength: number): string {
  // First, as a URL that is cut shows a part of its password.
  return cut(maskUrls(printable(asText(value).slice(0, MAX_URLS))), maxLength)
}

/** Of an error, or of another object, what `throw` would show of it. */
function asText(value: unknown): string {
  return typeof value === 'object' && value !== null ? messageOf(value) : String(value)
}

function cut(text: string, maxLength: number): string {
  return text.length > maxLength ? `${text.slice(0, maxLength)}…` : text
}
