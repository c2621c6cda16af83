import type { Configuration, Finding, Instance, ManifestProblem, Place } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube/objects'

// What the page shows, without a word about where it comes from: one machine, or a cluster.

/** The identity of an item: `configuration/plant/cameras`, `handler/udev`. */
export type UiKey = `${UiItem['kind']}/${string}`

export interface UiAbout {
  /** What the page shows, such as the name of this node. */
  readonly title: string
  /** Whether it shows a cluster. @default one machine */
  readonly isCluster?: boolean
}

/** A broker of a device: of this machine, or a Pod. */
export interface UiBroker {
  readonly phase: string
  readonly reason?: string
  readonly pid?: number | undefined
}

export interface UiEvent {
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly message: string
  readonly count: number
  readonly lastTimestamp: string
}

export type UiItem =
  | { readonly kind: 'configuration'; readonly object: Configuration }
  | {
      readonly kind: 'device'
      readonly object: Instance
      readonly broker?: UiBroker | undefined
      /** The Pod that uses a slot, by the name of the slot. @default unknown */
      readonly users?: Readonly<Record<string, string>>
    }
  /** The Events of one object, the newest last. */
  | { readonly kind: 'events'; readonly events: readonly UiEvent[] }
  | {
      readonly kind: 'handler'
      readonly name: string
      /** Its package and version. @default it registered itself */
      readonly package?: string | undefined
      /** Where it runs, in words. */
      readonly place: string
      /** Undefined if the source cannot know it. */
      readonly isConnected: boolean | undefined
    }
  /** All problems of files and of handlers that were not loaded. */
  | { readonly kind: 'problems'; readonly problems: readonly ManifestProblem[] }
  | UiOutages

/** What the source cannot read now. */
export interface UiOutages {
  readonly kind: 'outages'
  /** A sentence for each outage. */
  readonly messages: readonly string[]
  /** The kinds of which nothing has been read: that there are none would be wrong. */
  readonly unread: readonly UiItem['kind'][]
}

/** Where the items come from. They are the objects themselves: the server masks secrets. */
export interface UiSource {
  readonly about: UiAbout
  /** The keys of all present items. */
  keys(): Iterable<UiKey>
  /** The present item; undefined if there is none. */
  item(key: UiKey): UiItem | undefined
  /** @param listener gets the key of each item that comes, changes or goes */
  onChange(listener: (key: UiKey) => void, signal: AbortSignal): void
  /** @default no page to try Configurations */
  readonly trial?: UiTrial | undefined
}

/** What `akri validate` finds in a text. */
export interface UiCheck {
  readonly findings: readonly (Finding & { readonly place?: Place | undefined })[]
  /** The number of further findings. */
  readonly more: number
  /** The names of its valid Configurations. */
  readonly configurations: readonly string[]
}

/** A device that a handler reports with a reason. */
export interface UiReportedDevice {
  readonly id: string
  readonly reason: string
  readonly detail?: string | undefined
}

/** What `akri discover` shows. */
export interface UiDiscovery {
  readonly devices: readonly {
    readonly id: string
    readonly properties: Readonly<Record<string, string>>
  }[]
  readonly leftOut: readonly UiReportedDevice[]
  readonly problems: readonly UiReportedDevice[]
  readonly remarks: readonly string[]
}

/** The text of the file with a Configuration. */
export interface UiFile {
  readonly file: string
  readonly text: string
  /** Tells whether the file has changed since. */
  readonly version: string
}

/** A file that a person edits. */
export interface UiOpenFile {
  /** The Configuration by which it was opened; the page names no paths. */
  readonly configuration: string
  readonly version: string
}

/** Tries Configurations that a person writes in the page. Each method may throw a UiTrialError. */
export interface UiTrial {
  /** @param open the file that the text is to replace */
  check(text: string, open: UiOpenFile | undefined): Promise<UiCheck>
  /** Asks the handler of a Configuration of the text once, and writes nothing. */
  discover(text: string, name: string, signal: AbortSignal): Promise<UiDiscovery>
  /** Opens and writes files of Configurations. @default nothing is written */
  readonly files?: UiFiles | undefined
}

export interface UiFiles {
  open(configuration: string): Promise<UiFile>
  /**
   * Writes a text without problems into the open file, or else into a new one.
   * @returns the file as it is then, for the next edit
   */
  write(text: string, open: UiOpenFile | undefined): Promise<UiOpenFile & Pick<UiFile, 'file'>>
}

export function configurationKey(key: ObjectKey): UiKey {
  return `configuration/${key}`
}

export function deviceKey(key: ObjectKey): UiKey {
  return `device/${key}`
}

/** @param regarding the kind and the key of the object */
export function eventsKey(regarding: { readonly kind: string; readonly key: string }): UiKey {
  return `events/${regarding.kind}/${regarding.key}`
}

export function handlerKey(name: string): UiKey {
  return `handler/${name}`
}

export const PROBLEMS_KEY: UiKey = 'problems/all'
export const OUTAGES_KEY: UiKey = 'outages/all'
