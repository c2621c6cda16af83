import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { json } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { UiTrialError } from '../errors.js'
import type { UiDiscovery, UiFiles, UiTrial } from '../source.js'
import { MemorySource } from '../testing/memory-source.js'
import { serveUi, type UiServer } from './ui-server.js'

const TOKEN = 'the-token'
const NOTHING: UiDiscovery = { devices: [], leftOut: [], problems: [], remarks: [] }

/** A trial whose discoveries end when the test says so. */
class ManualTrial implements UiTrial {
  files: UiFiles | undefined
  readonly signals: AbortSignal[] = []
  readonly written: string[] = []
  finish: (found: UiDiscovery) => void = () => {}
  #isRunning = false

  async check(text: string) {
    const message = `it is ${text}, <b>\u202e http://user:hunter2@host`
    return {
      findings: [{ level: 'problem' as const, path: 'spec', message }],
      more: 0,
      configurations: ['lab'],
    }
  }

  discover(_text: string, name: string, signal: AbortSignal): Promise<UiDiscovery> {
    if (name === 'wrong') throw new UiTrialError('no handler answers')
    if (this.#isRunning) throw new RangeError('two discoveries at a time')
    this.#isRunning = true
    this.signals.push(signal)
    return new Promise<UiDiscovery>((resolve) => {
      this.finish = resolve
      signal.addEventListener('abort', () => resolve(NOTHING))
    }).finally(() => {
      this.#isRunning = false
    })
  }
}

describe('the requests of a page that tries Configurations', () => {
  let directory: string
  let trial: ManualTrial
  let server: UiServer
  let port: number

  beforeEach(async () => {
    directory = await mkdtemp(path.join(os.tmpdir(), 'akri-ui-'))
    await writeFile(path.join(directory, 'index.html'), 'the page')
    trial = new ManualTrial()
    server = await serve(trial)
  })

  afterEach(async () => {
    await server.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function serve(trial: UiTrial | undefined): Promise<UiServer> {
    const source = new MemorySource()
    source.trial = trial
    const page = pathToFileURL(`${directory}/`)
    const options = { page, token: TOKEN, clock: systemClock, log: silentLogger }
    const opened = await serveUi({ source, ...options })
    port = Number(new URL(opened.address).port)
    return opened
  }

  function call(action: string, body: string, headers: Readonly<Record<string, string>> = {}) {
    const all = {
      cookie: `akri-${port}=${TOKEN}`,
      origin: `http://127.0.0.1:${port}`,
      'content-type': 'application/json',
      ...headers,
    }
    const at = { host: '127.0.0.1', port, path: `/api/try/${action}`, agent: false }
    const made = request({ ...at, method: 'POST', headers: all })
    made.on('error', () => {}).end(body)
    return made
  }

  async function ask(action: string, body: object | string, headers = {}) {
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    const [response]: IncomingMessage[] = await once(call(action, text, headers), 'response')
    if (response === undefined) throw new TypeError('no response')
    if (response.headers['content-type'] !== 'application/json')
      return { status: response.statusCode, answer: undefined }
    return { status: response.statusCode, answer: await json(response) }
  }

  it('answer what a check finds, as texts that nothing obeys, and without passwords', async () => {
    const { status, answer } = await ask('check', { text: 'wrong' })
    expect(status).toBe(200)
    const message = 'it is wrong, <b>\ufffd http://user:***@host'
    expect(answer).toMatchObject({ findings: [{ path: 'spec', message }], configurations: ['lab'] })
  })

  it('are no requests of a source that tries nothing', async () => {
    await server.close()
    server = await serve(undefined)
    expect((await ask('check', { text: '' })).status).toBe(405)
  })

  it('are refused without the cookie, from elsewhere, and as a form', async () => {
    for (const headers of [
      { cookie: '' },
      { origin: 'http://evil.example' },
      { host: 'evil.example' },
      { 'content-type': 'text/plain' },
    ])
      expect((await ask('check', { text: '' }, headers)).status).toBe(403)
  })

  it('are refused if they are longer than a text can be', async () => {
    const { status, answer } = await ask('check', { text: 'x'.repeat(257 * 1024) })
    expect(status).toBe(413)
    expect(answer).toEqual({ error: 'a text has at most 256 KiB here' })
    expect((await ask('check', { text: 'x'.repeat(200 * 1024) })).status).toBe(200)
  })

  it.each(['not JSON', 'null', '[]', '{"text": 5}'])('take %s for an empty text', async (body) => {
    expect((await ask('check', body)).answer).toMatchObject({
      findings: [{ message: expect.stringMatching(/^it is , /) }],
    })
  })

  it('write nothing if the source writes nothing', async () => {
    for (const action of ['open', 'write'])
      expect(await ask(action, { text: 'a: b', configuration: 'plant/lab' })).toEqual({
        status: 422,
        answer: { error: 'this page does not write Configurations' },
      })
  })

  it('open no file that the page could not write back as it was', async () => {
    const file = { file: '/etc/lab.yaml', version: '1' }
    let text = 'a: b\n'
    trial.files = {
      open: async () => ({ ...file, text }),
      write: async (text, open) => {
        trial.written.push(`${open?.configuration} ${open?.version} ${text}`)
        return { ...file, configuration: 'plant/lab' }
      },
    }
    expect((await ask('open', { configuration: 'plant/lab' })).answer).toEqual({ ...file, text })
    const open = { configuration: 'plant/lab', version: '1' }
    expect((await ask('write', { text, open })).status).toBe(200)
    expect(trial.written).toEqual(['plant/lab 1 a: b\n'])
    for (text of ['a: http://user:hunter2@host', 'a: \u202e']) {
      const { status, answer } = await ask('open', { configuration: 'plant/lab' })
      expect(status).toBe(422)
      expect(JSON.stringify(answer)).toMatch(/edit the file itself/)
      expect(JSON.stringify(answer)).not.toMatch(/hunter2/)
    }
  })

  it('run one discovery at a time', async () => {
    const first = ask('discover', { text: '', name: 'lab' })
    await eventually(() => expect(trial.signals).toHaveLength(1))
    const second = await ask('discover', { text: '', name: 'lab' })
    expect(second).toMatchObject({
      status: 422,
      answer: { error: expect.stringMatching(/^a discovery of this page runs/) },
    })
    trial.finish({ ...NOTHING, remarks: ['\u202e'] })
    expect((await first).answer).toEqual({ ...NOTHING, remarks: ['\ufffd'] })
    expect(await ask('discover', { text: '', name: 'wrong' })).toEqual({
      status: 422,
      answer: { error: 'no handler answers' },
    })
  })

  it('end a discovery whose page is closed', async () => {
    const made = call('discover', JSON.stringify({ text: '', name: 'lab' }))
    await eventually(() => expect(trial.signals).toHaveLength(1))
    made.destroy()
    await eventually(() => expect(trial.signals[0]?.aborted).toBe(true))
  })
})
