import type { LogLevel } from '@akrijs/runtime'

/** What the process of a discovery gets from `akri discover --watch`. */
export interface DiscoveryProcessRequest {
  /** The path of a module or package. */
  readonly handler: string
  readonly details: string
  readonly properties: readonly (readonly [string, Uint8Array | undefined])[]
  readonly form: 'text' | 'json'
  readonly logLevel: LogLevel
  readonly logFormat: 'text' | 'json'
  readonly isColored: boolean
  /** Whether the process ends after the first list that tells something. @default false */
  readonly isOnce?: boolean
}

/** What the process of a discovery sends: its lists as text, and at last why it failed. */
export type DiscoveryProcessMessage =
  | { readonly list: string }
  | {
      readonly failure: string
      /** The file that an import has not found. */
      readonly missing?: string | undefined
    }
