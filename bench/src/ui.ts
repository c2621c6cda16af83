// The page with the devices: its size, what a browser needs, and the memory of its server.

import { type ChildProcess, spawn } from 'node:child_process'
import { on, once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { gzipSync } from 'node:zlib'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { serveUi } from '@akrijs/ui'
import { askAgent } from '../../cli/src/control/control-client.js'
import {
  missingForBrowsers,
  openPage,
  startBrowser,
  untilLive,
} from '../../test/ui/support/browser.js'
import {
  configurationNamed,
  deviceNamed,
  MemorySource,
} from '../../ui/src/testing/memory-source.js'
import { memoryOf } from './memory.mjs'
import { type Figure, percentile } from './table.mjs'

const DEVICES = 1000
const UPDATES = 30
/** The updates that a busy machine delays. */
const SHARE = 0.9
/** Memory that only the start needed is free by then. */
const SETTLE_MS = 10_000
const POLL_MS = 100
/** The bench runs in the root of the clone. */
const PAGE = path.resolve('cli/dist/page')
const PROGRAM = path.resolve('cli/dist/akri.js')

export async function measure(): Promise<Figure[]> {
  return [...sizes(), ...(await browserFigures()), ...(await memoryFigures())]
}

/** What the first visit loads, and what Try loads besides. */
function sizes(): Figure[] {
  const kilobytes = (test: RegExp) =>
    readdirSync(PAGE)
      .filter((name) => test.test(name))
      .reduce((sum, name) => sum + gzipSync(readFileSync(path.join(PAGE, name))).length, 0) / 1000
  const figure = (what: string, value: number) => ({ what, value, unit: 'kB', budget: 200 })
  return [
    figure('the page (gzip)', kilobytes(/^(index\.html|page\.(js|css))$/)),
    figure('its editor (gzip), loaded by Try', kilobytes(/^yaml-editor/)),
  ]
}

/** What a browser shows of devices in the memory of this process. */
async function browserFigures(): Promise<Figure[]> {
  if (missingForBrowsers.length > 0) {
    process.stdout.write('without the figures of a browser: it needs chromium\n')
    return []
  }
  const source = new MemorySource()
  source.putObject(configurationNamed('lab', 'udev'))
  for (let index = 0; index < DEVICES; index++)
    source.putObject(deviceNamed(`lab-${index}`, { NAME: `device ${index}` }))
  const page = pathToFileURL(`${PAGE}/`)
  const server = await serveUi({ source, page, clock: systemClock, log: silentLogger })
  const browser = await startBrowser()
  try {
    const tab = await openPage(browser, server.address)
    await untilLive(tab)
    await tab.goto(new URL('/devices', server.address).href)
    await tab.getByRole('list', { name: 'Devices' }).getByRole('link').first().waitFor()
    const firstPaint = await tab.evaluate(
      () => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Number.NaN,
    )
    await tab.goto(new URL('/devices/plant/lab-1', server.address).href)
    await tab.getByRole('heading', { level: 1, name: 'device 1' }).waitFor()
    const times: number[] = []
    for (let update = 0; update < UPDATES; update++) {
      const name = `update ${update}`
      const shown = tab.evaluate<number>(`new Promise((resolve) => {
        const look = () => {
          if (document.querySelector('h1')?.textContent !== '${name}') requestAnimationFrame(look)
          else resolve(performance.timeOrigin + performance.now())
        }
        look()
      })`)
      const start = performance.timeOrigin + performance.now()
      source.putObject(deviceNamed('lab-1', { NAME: name }))
      times.push((await shown) - start)
    }
    const of = `with ${DEVICES} devices`
    return [
      { what: `first paint, ${of}`, value: firstPaint, unit: 'ms', budget: 1000 },
      {
        what: `change to a frame that shows it, ${of} (${SHARE * 100} %)`,
        value: percentile(times, SHARE),
        unit: 'ms',
        budget: 500,
        peer: { name: 'the time in which changes are gathered', value: 100 },
      },
    ]
  } finally {
    await browser.close()
    await server.close()
  }
}

/** The memory of `akri run` with a page that one browser has open, and without a page. */
async function memoryFigures(): Promise<Figure[]> {
  const without = await memoryOfAgent('--no-ui')
  const served = await memoryOfAgent('--ui', '0')
  const what = `the agent with an open page, with ${DEVICES} devices`
  const peer = (value: number) => ({ name: 'the agent without it', value })
  return [
    {
      what: `memory (RSS) of ${what}`,
      value: served.resident,
      unit: 'MB',
      budget: Math.round(without.resident + 30),
      peer: peer(without.resident),
    },
    {
      what: `memory (dirty) of ${what}`,
      value: served.dirty,
      unit: 'MB',
      budget: Math.round(without.dirty + 30),
      peer: peer(without.dirty),
    },
  ]
}

async function memoryOfAgent(...args: readonly string[]): Promise<ReturnType<typeof memoryOf>> {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-bench-'))
  const file = path.join(directory, 'echo.json')
  const descriptions = Array.from({ length: DEVICES }, (_, index) => `device ${index}`)
  const discoveryDetails = JSON.stringify({ descriptions })
  writeFileSync(
    file,
    JSON.stringify({
      apiVersion: 'akri.sh/v0',
      kind: 'Configuration',
      metadata: { name: 'echo' },
      spec: { offer: 'configuration', discoveryHandler: { name: 'debugEcho', discoveryDetails } },
    }),
  )
  const state = path.join(directory, 's')
  const command = [PROGRAM, 'run', '-f', file, '--handler', 'debugEcho', '--state-dir', state]
  const agent = spawn(process.execPath, [...command, '--plain', '--log-level', 'warn', ...args], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const ended = once(agent, 'exit')
  try {
    const address = args[0] === '--ui' ? await addressOf(agent) : undefined
    if (address === undefined) agent.stdout?.resume()
    const socket = path.join(state, 'control.sock')
    while (!(await hasAllDevices(socket))) await systemClock.sleep(POLL_MS)
    const stream = address === undefined ? undefined : await openStream(address)
    await systemClock.sleep(SETTLE_MS)
    const memory = memoryOf(agent.pid)
    await stream?.cancel()
    return memory
  } finally {
    agent.kill('SIGTERM')
    await ended
    rmSync(directory, { recursive: true, force: true })
  }
}

async function hasAllDevices(socket: string): Promise<boolean> {
  const answer = await askAgent(socket, '/apis/akri.sh/v0/instances').catch(() => undefined)
  const { items = [] } = (answer ?? {}) as { readonly items?: readonly unknown[] }
  return items.length === DEVICES
}

async function addressOf({ stdout }: ChildProcess): Promise<string> {
  if (stdout === null) throw new TypeError('the agent has no output')
  let text = ''
  for await (const [chunk] of on(stdout, 'data')) {
    text += String(chunk)
    const [address] = /http:\S+(?=\n)/.exec(text) ?? []
    if (address === undefined) continue
    // A pipe that is full would stop the agent.
    stdout.resume()
    return address
  }
  throw new TypeError('the agent has printed no address')
}

/** Reads the stream of the page, as an open page does. */
async function openStream(address: string): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  const welcome = await fetch(address, { redirect: 'manual' })
  const cookie = welcome.headers.get('set-cookie')?.split(';')[0] ?? ''
  const { body } = await fetch(new URL('/api/watch', address), { headers: { cookie } })
  const reader = body?.getReader()
  if (reader === undefined) throw new TypeError('the agent has no stream')
  const readAll = async () => {
    while (!(await reader.read()).done);
  }
  readAll().catch(() => undefined)
  return reader
}
