import type { ShownItem } from '../../server/shown-item.js'

export type ShownConfiguration = Extract<ShownItem, { kind: 'configuration' }>
export type ShownDevice = Extract<ShownItem, { kind: 'device' }>
export type ShownEvents = Extract<ShownItem, { kind: 'events' }>
export type ShownHandler = Extract<ShownItem, { kind: 'handler' }>
export type ShownOutages = Extract<ShownItem, { kind: 'outages' }>
export type ShownProblems = Extract<ShownItem, { kind: 'problems' }>

/** In place of what the source cannot read. */
export const NOT_READ = 'Not read: see the message above.'

/** `namespace/name` */
export function nameOf({
  metadata,
}: {
  readonly metadata: { readonly namespace: string; readonly name: string }
}): string {
  return `${metadata.namespace}/${metadata.name}`
}

/** The key of the Configuration of a device. */
export function configurationOf({ object }: ShownDevice): string {
  return `${object.metadata.namespace}/${object.spec.configurationName}`
}

/** The address of the page of a device. */
export function deviceHref(object: Parameters<typeof nameOf>[0]): string {
  const { namespace, name } = object.metadata
  return `/devices/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`
}

/** The address of the list with a search. */
export function searchHref(query: Readonly<Record<string, string>>): string {
  return `/devices?${new URLSearchParams(query)}`
}

/** `1 device`, `2 devices` */
export function counted(number: number, noun: string): string {
  return `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`
}
