import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { build } from 'esbuild'
import { DataType, OPCUACertificateManager, OPCUAServer, Variant } from 'node-opcua'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'

const root = path.join(import.meta.dirname, '..')
const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-subscriber-'))
// A directory from which the program finds its packages.
const program = path.join(root, 'node_modules/.test/main.mjs')
const children = new Set<ChildProcess>()
let server: Mixer

beforeAll(async () => {
  const entryPoints = [path.join(root, 'src/main.ts')]
  const outdir = path.dirname(program)
  const outExtension = { '.js': '.mjs' }
  await build({
    entryPoints,
    bundle: true,
    splitting: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    outdir,
    outExtension,
  })
  server = await Mixer.start(0)
})

afterEach(() => {
  for (const child of children) child.kill('SIGKILL')
})

afterAll(async () => {
  await server.close()
  rmSync(directory, { recursive: true, force: true })
  rmSync(path.dirname(program), { recursive: true, force: true })
})

/** A server with the variable `ns=1;s=Level`, which rises with each read. */
class Mixer {
  readonly #server: OPCUAServer
  readonly port: number

  private constructor(opcua: OPCUAServer, port: number) {
    this.#server = opcua
    this.port = port
  }

  static async start(port: number): Promise<Mixer> {
    const certificates = (name: string) =>
      new OPCUACertificateManager({ rootFolder: path.join(directory, name) })
    const opcua = new OPCUAServer({
      port,
      resourcePath: '/UA/Mixer',
      serverCertificateManager: certificates('server'),
      userCertificateManager: certificates('user'),
    })
    await opcua.initialize()
    const namespace = opcua.engine.addressSpace?.getOwnNamespace()
    let level = 0
    namespace?.addVariable({
      organizedBy: opcua.engine.addressSpace?.rootFolder.objects ?? '',
      browseName: 'Level',
      nodeId: 's=Level',
      dataType: DataType.Double,
      minimumSamplingInterval: 10,
      value: { get: () => new Variant({ dataType: DataType.Double, value: level++ }) },
    })
    await opcua.start()
    return new Mixer(opcua, Number(new URL(opcua.getEndpointUrl()).port))
  }

  get url(): string {
    return `opc.tcp://127.0.0.1:${this.port}/UA/Mixer`
  }

  async close(): Promise<void> {
    await this.#server.shutdown(0)
  }
}

function run(environment: Readonly<Record<string, string>>) {
  const home = path.join(directory, 'home')
  const env = { PATH: process.env.PATH, HOME: home, OPCUA_INTERVAL_MS: '50', ...environment }
  const child = spawn(process.execPath, [program], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  children.add(child)
  child.once('exit', () => children.delete(child))
  const printed = { out: '', err: '' }
  child.stdout.on('data', (data: Buffer) => {
    printed.out += data.toString()
  })
  child.stderr.on('data', (data: Buffer) => {
    printed.err += data.toString()
  })
  const values = () =>
    printed.out
      .split('\n')
      .filter((line) => line !== '')
      .map(
        (line) =>
          JSON.parse(line) as { time: string; nodeId: string; status: string; value: unknown },
      )
  const end = async (signal?: NodeJS.Signals) => {
    const exit = once(child, 'exit')
    if (signal !== undefined) child.kill(signal)
    return await exit
  }
  return { printed, values, end }
}

describe('the OPC UA subscriber', () => {
  it('prints and reports values, ends at SIGTERM, and writes nothing elsewhere', async () => {
    const info = mkdtempSync(path.join(directory, 'info-'))
    const environment = {
      OPCUA_DISCOVERY_URL: server.url,
      OPCUA_NODE_ID: 'ns=1;s=Level',
      AKRI_BROKER_INFO_DIRECTORY: info,
    }
    const { values, printed, end } = run(environment)
    await expect.poll(() => values().length, { timeout: 60_000 }).toBeGreaterThan(2)
    const numbers = values().map(({ value }) => Number(value))
    expect(numbers).toEqual([...numbers].sort((a, b) => a - b))
    expect(values()[0]).toMatchObject({
      nodeId: 'ns=1;s=Level',
      status: 'Good',
      time: expect.stringMatching(/^20/),
    })
    expect(await end('SIGTERM')).toEqual([0, null])
    expect(printed.err).toBe('')
    expect(readdirSync(info).sort()).toEqual(['connected', 'time', 'value'])
    expect(readFileSync(path.join(info, 'connected'), 'utf8')).toBe('yes')
    expect(readFileSync(path.join(info, 'value'), 'utf8')).toBe(String(values().at(-1)?.value))
    expect(readdirSync(directory)).not.toContain('home')
  })

  it('continues after a restart of the server', async () => {
    const first = await Mixer.start(0)
    const info = mkdtempSync(path.join(directory, 'info-'))
    const environment = {
      OPCUA_DISCOVERY_URL: first.url,
      OPCUA_NODE_ID: 'ns=1;s=Level',
      AKRI_BROKER_INFO_DIRECTORY: info,
    }
    const { values, end } = run(environment)
    await expect.poll(() => values().length, { timeout: 60_000 }).toBeGreaterThan(0)
    await first.close()
    await expect
      .poll(() => readFileSync(path.join(info, 'connected'), 'utf8'), { timeout: 60_000 })
      .toBe('no')
    const before = values().length
    const second = await Mixer.start(first.port)
    try {
      await expect.poll(() => values().length, { timeout: 60_000 }).toBeGreaterThan(before)
      expect(await end('SIGTERM')).toEqual([0, null])
    } finally {
      await second.close()
    }
  })

  it('ends at SIGTERM also before the first answer of the server', async () => {
    const silent = createServer((socket) => void socket.resume().on('error', () => undefined))
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    const address = silent.address()
    const port = typeof address === 'object' ? address?.port : ''
    const { end } = run({ OPCUA_DISCOVERY_URL: `opc.tcp://127.0.0.1:${port}/` })
    await once(silent, 'connection')
    expect(await end('SIGTERM')).toEqual([0, null])
    silent.close()
  })

  it('reaches a server with an announced name of multicast DNS', async () => {
    const announced = server.url.replace('127.0.0.1', 'mixer.local')
    const environment = {
      OPCUA_DISCOVERY_URL: announced,
      OPCUA_SERVER_ADDRESSES: '127.0.0.1,::1',
      OPCUA_NODE_ID: 'ns=1;s=Level',
    }
    const { printed, end } = run(environment)
    await vi.waitFor(() => expect(printed.out).toMatch(/"status":"Good"/), 30_000)
    expect(await end('SIGTERM')).toEqual([0, null])
  })

  it.each<[string, Record<string, string>, RegExp]>([
    ['no server', {}, /OPCUA_DISCOVERY_URL is not set/],
    ['an interval that is none', { OPCUA_INTERVAL_MS: 'often' }, /OPCUA_INTERVAL_MS is often/],
    [
      'a node that the server does not have',
      { OPCUA_NODE_ID: 'ns=1;s=Nothing' },
      /ns=1;s=Nothing cannot be followed: BadNodeIdUnknown/,
    ],
  ])('reports %s', async (name, environment, message) => {
    const { printed, end } = run({
      ...(name === 'no server' ? {} : { OPCUA_DISCOVERY_URL: server.url }),
      ...environment,
    })
    expect(await end()).toEqual([1, null])
    expect(printed.err).toMatch(message)
  })
})
