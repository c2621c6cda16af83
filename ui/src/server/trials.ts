import type { IncomingMessage, ServerResponse } from 'node:http'
import { AkriError, fieldOf, printableLines } from '@akrijs/runtime'
import { UiTrialError } from '../errors.js'
import type { UiOpenFile, UiTrial } from '../source.js'
import { shown } from './shown-item.js'

/** The largest request, in bytes: a person does not write more, and a file of more is rare. */
const MAX_BYTES = 256 * 1024
const PATH = /^\/api\/try\/(check|discover|open|write)$/

interface Answer {
  readonly status: number
  /** JSON */
  readonly body: string
}

/** The requests of a page that tries Configurations. */
export class Trials {
  readonly #trial: UiTrial
  /** A discovery is a process, and sends to the network: one at a time. */
  #isDiscovering = false

  constructor(trial: UiTrial) {
    this.#trial = trial
  }

  takes(path: string): boolean {
    return PATH.test(path)
  }

  /** Answers a request that is admitted. @param response its end ends the work */
  async answer(path: string, request: IncomingMessage, response: ServerResponse): Promise<Answer> {
    const over = new AbortController()
    response.once('close', () => over.abort())
    // A first list may take longer than the server waits for a silent connection.
    request.setTimeout(0)
    const body = await bodyOf(request)
    if (body === undefined) {
      response.setHeader('connection', 'close')
      return failed(413, `a text has at most ${MAX_BYTES / 1024} KiB here`)
    }
    try {
      const [, action = ''] = PATH.exec(path) ?? []
      return { status: 200, body: JSON.stringify(await this.#run(action, body, over.signal)) }
    } catch (error) {
      if (!AkriError.is(error)) throw error
      return failed(422, String(shown(error.message)))
    }
  }

  async #run(action: string, body: unknown, signal: AbortSignal): Promise<unknown> {
    const text = textOf(body, 'text')
    const trial = this.#trial
    if (action === 'check') return shown(await trial.check(text, openFileOf(body)))
    if (action === 'discover') return this.#discover(text, textOf(body, 'name'), signal)
    const { files } = trial
    if (files === undefined) throw new UiTrialError('this page does not write Configurations')
    if (action === 'write') return shown(await files.write(text, openFileOf(body)))
    const file = await files.open(textOf(body, 'configuration'))
    // What the page shows is what it writes: a character that it cannot show would be lost.
    if (shown(file.text) !== file.text)
      throw new UiTrialError(
        `${printableLines(file.file)} has a password in a URL, or a character that no page ` +
          'shows; edit the file itself',
      )
    return file
  }

  async #discover(text: string, name: string, signal: AbortSignal): Promise<unknown> {
    if (this.#isDiscovering)
      throw new UiTrialError('a discovery of this page runs: wait for its end, then try again')
    this.#isDiscovering = true
    try {
      return shown(await this.#trial.discover(text, name, signal))
    } finally {
      this.#isDiscovering = false
    }
  }
}

function failed(status: number, error: string): Answer {
  return { status, body: JSON.stringify({ error }) }
}

/** @returns undefined if the body is too long; null if it is not JSON */
async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request) {
    const buffer = Buffer.from(chunk)
    bytes += buffer.length
    if (bytes > MAX_BYTES) return undefined
    chunks.push(buffer)
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'))
  } catch {
    return null
  }
}

/** @returns an empty text for what is none */
function textOf(body: unknown, name: string): string {
  const text = fieldOf(body, name)
  return typeof text === 'string' ? text : ''
}

function openFileOf(body: unknown): UiOpenFile | undefined {
  const open = fieldOf(body, 'open')
  const [configuration, version] = [textOf(open, 'configuration'), textOf(open, 'version')]
  return configuration === '' ? undefined : { configuration, version }
}
