import {
  type Configuration,
  deviceText,
  failureText,
  type Instance,
  maskObject,
  shortageText,
} from '@akrijs/api'
import { maskUrls, printableLines } from '@akrijs/runtime'
import type { UiItem } from '../source.js'

type Configured = Extract<UiItem, { kind: 'configuration' }>
type Device = Extract<UiItem, { kind: 'device' }>

/** An item as the page gets it: without secrets, and with the words of `akri get`. */
export type ShownItem =
  | (Configured & {
      /** The first condition that is not met, in one line. */
      readonly failure: string | undefined
      /** Why there are no devices, or not all that the handler saw. */
      readonly shortage: string | undefined
    })
  | (Device & {
      /** The property that identifies the device for people. */
      readonly known: string
    })
  | Exclude<UiItem, Configured | Device>

/** All items go through here: nothing else of a source reaches the page. */
export function shownItem(item: UiItem): ShownItem {
  return shown(withWords(item)) as ShownItem
}

function withWords(item: UiItem): ShownItem {
  if (item.kind === 'configuration') {
    const { object } = item
    return {
      ...item,
      object: maskObject<Configuration>(object),
      failure: failureText(object),
      shortage: shortageText(object),
    }
  }
  if (item.kind !== 'device') return item
  const { object } = item
  return {
    ...item,
    object: maskObject<Instance>(object),
    known: deviceText(object.spec.brokerProperties),
  }
}

/**
 * The same value with texts that no browser and no terminal obeys, as a person can copy them, and
 * without passwords of URLs.
 */
export function shown(value: unknown): unknown {
  if (typeof value === 'string') return printableLines(maskUrls(value))
  if (Array.isArray(value)) return value.map(shown)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [printableLines(name), shown(inner)]),
  )
}
