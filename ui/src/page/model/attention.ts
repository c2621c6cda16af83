import { deviceTitle } from './device-title.js'
import { deviceState } from './device-use.js'
import {
  deviceHref,
  nameOf,
  type ShownConfiguration,
  type ShownDevice,
  type ShownProblems,
  searchHref,
} from './shown.js'

/** Something that a person should know first. */
export interface Notice {
  /** What has the problem. */
  readonly subject: string
  readonly text: string
  /** The page that has more; undefined if there is none. */
  readonly href?: string | undefined
}

/** The most devices with a notice of their own. */
const MAX_DEVICES = 10

/** Problems of files first, as they hide all else; then Configurations, then devices. */
export function noticesOf(
  problems: ShownProblems['problems'],
  configurations: readonly ShownConfiguration[],
  devices: readonly ShownDevice[],
): Notice[] {
  const wrong = devices
    .map((device) => ({ device, ...deviceState(device) }))
    .filter(({ health }) => health === 'wrong')
  const more = wrong.length - MAX_DEVICES
  return [
    ...problems.map(({ file, place, path, message }) => ({
      subject: place === undefined ? file : `${file}:${place.line}:${place.column}`,
      text: path === '' ? message : `${path}: ${message}`,
    })),
    ...configurations.flatMap(({ object, failure, shortage }) => {
      const text = failure ?? ((object.status?.devices ?? 0) > 0 ? shortage : undefined)
      if (text === undefined) return []
      const href = searchHref({ configuration: nameOf(object) })
      return [{ subject: `Configuration ${object.metadata.name}`, text, href }]
    }),
    ...wrong.slice(0, MAX_DEVICES).map(({ device, text }) => ({
      subject: deviceTitle(device.object.spec.brokerProperties, device.known).title,
      text,
      href: deviceHref(device.object),
    })),
    ...(more > 0
      ? [
          {
            subject: `${more} more devices`,
            text: 'have a problem',
            href: '/devices?state=problem',
          },
        ]
      : []),
  ]
}

export type Tone = 'good' | 'bad' | 'quiet' | 'warn'

/** The state of a Configuration in words. No devices come with their reason. */
export function configurationState({ object, failure, shortage }: ShownConfiguration): {
  readonly tone: Tone
  readonly text: string
} {
  if (failure !== undefined) return { tone: 'bad', text: failure }
  if (object.status === undefined) return { tone: 'quiet', text: 'starting' }
  if (object.status.devices === 0) return { tone: 'quiet', text: shortage ?? NO_REASON }
  if (shortage !== undefined) return { tone: 'warn', text: shortage }
  return { tone: 'good', text: 'Ready' }
}

const NO_REASON = 'no devices found, and the handler gives no reason'
