import { signal } from '@preact/signals'
import type { UiCheck, UiDiscovery, UiFile, UiOpenFile } from '../source.js'

/** What each request of a trial answers. */
interface Answers {
  readonly check: UiCheck
  readonly discover: UiDiscovery
  readonly open: UiFile
  readonly write: OpenFile
}

type OpenFile = UiOpenFile & Pick<UiFile, 'file'>

/** What a person writes. */
export interface Draft {
  readonly text: string
  /** The file that the text is to replace. @default a new file */
  readonly open?: OpenFile | undefined
  /** Another one for a text that the person has not written. */
  readonly key: string
}

const FIRST = `apiVersion: akri.sh/v0
kind: Configuration
metadata:
  name: echo
spec:
  discoveryHandler:
    name: debugEcho
    discoveryDetails: |
      descriptions: [first, second]
`

export const NEW_DRAFT: Draft = { text: FIRST, key: '' }

/** Stays when a person goes to another page, and comes back. */
export const draft = signal<Draft>(NEW_DRAFT)

/** Asks the server. @throws an Error whose message is for people */
export async function ask<Action extends keyof Answers>(
  action: Action,
  body: object,
  aborted?: AbortSignal,
): Promise<Answers[Action]> {
  const response = await fetch(`/api/try/${action}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    ...(aborted && { signal: aborted }),
  })
  const answer = await response.json().catch(() => ({}))
  if (!response.ok) throw new TypeError(answer.error ?? 'the agent does not answer')
  return answer
}
