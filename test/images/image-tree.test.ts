import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { SimulatedCamera } from '@akrijs/handler-onvif/testing'
import type { Device } from '@akrijs/sdk'
import { SimulatedAgent } from '@akrijs/sdk/testing'
import { afterAll, beforeAll, expect, it } from 'vitest'
import builtIn from '../../handlers/built-in.json' with { type: 'json' }
import { SecuredServer } from '../../handlers/opcua/test-peers/secured-server.js'
import { SimulatedServer } from '../../handlers/opcua/test-peers/simulated-server.js'
import { visit } from '../standalone/support/page-visitor.js'
import { eventually } from '../support/eventually.js'
import { describeUnless } from '../support/unless.js'
import { addUsbBinary, imageTree, imageTrees, opcuaClientTree } from './trees.js'

const built = existsSync(path.join(import.meta.dirname, '../../agent/dist/akri-agent.js'))
/** A user and group of a handler's container. */
const HANDLER = { uid: 65_521, gid: 65_520 }
/** Only root can start programs of other users, who may not enter every directory. */
const canBeHandler = spawnSync(process.execPath, ['--version'], HANDLER).status === 0
/** Shown in the title of a test that is skipped. */
const NEEDS_ROOT = ' (needs root, and a Node that all users may run)'

describeUnless(built ? [] : ['npm run build'], "the tree of the agent's image", () => {
  let directory: string
  let app: string
  let output: string

  beforeAll(async () => {
    directory = await mkdtemp(path.join(os.tmpdir(), 'akri-tree-'))
    app = path.join(directory, 'a/all/app')
    output = await imageTree(path.join(directory, 'a'))
  })

  afterAll(() => rm(directory, { recursive: true, force: true }))

  it('is the same each time, also if it replaces an older one', async () => {
    const digest =
      /sha256:[0-9a-f]{64}$/m.exec(output)?.[0] ?? expect.fail(`no digest in ${output}`)
    expect(await imageTree(path.join(directory, 'b'))).toContain(digest)
    expect(await imageTree(path.join(directory, 'a'))).toContain(digest)
  })

  it('is not written into a directory with other content', async () => {
    const other = path.join(directory, 'other')
    await mkdir(path.join(other, 'all/thing'), { recursive: true })
    await expect(imageTree(other)).rejects.toThrow('holds other things')
  })

  it('holds the programs and nothing else', async () => {
    const files = (await readdir(app, { recursive: true, withFileTypes: true }))
      .filter((entry) => !entry.isDirectory())
      .map((entry) => path.relative(app, path.join(entry.parentPath, entry.name)))
    const single = ['LICENSE', 'THIRD-PARTY-NOTICES.txt', 'sbom.cdx.json']
    const ofHandlers = String.raw`node_modules/@akrijs/[\w-]+/(dist/[\w-]+\.js|prebuilds/.*)`
    const ofUsb = String.raw`node_modules/usb/(LICENSE\.md|(dist/)?index\.js)`
    const ofAkri = String.raw`cli/([\w-]+\.js|page/[\w-]+\.(js|css|html))`
    const own = String.raw`.*package\.json|[\w-]+\.js|${ofAkri}`
    const others = new RegExp(`^(${own}|${ofHandlers}|${ofUsb})$`)
    for (const file of files.filter((file) => !single.includes(file))) expect(file).toMatch(others)
  })

  it('says of a kubeconfig that an image has no reader of it', async () => {
    const program = spawn(
      process.execPath,
      [path.join(app, 'akri-controller.js'), '--kubeconfig', '/nowhere'],
      { env: {}, stdio: ['ignore', 'ignore', 'pipe'] },
    )
    expect(await textOf(program.stderr)).toContain('a kubeconfig cannot be read here')
  })

  it('has akri ui with its page, which reaches the cluster as the account of its Pod', async () => {
    const options = ['--port', '0', '--allowed-host', 'a.example', '--log-format', 'json']
    const program = spawn(process.execPath, [path.join(app, 'cli/akri.js'), 'ui', ...options], {
      env: { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: '1' },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let log = ''
    program.stderr.on('data', (chunk) => {
      log += String(chunk)
    })
    try {
      const address = await eventually(() => /"address":"([^"]+)"/.exec(log)?.[1] ?? expect.fail())
      expect(log).toContain('serviceaccount/')
      const page = await visit(address, '/', { host: 'a.example' })
      expect(await textOf(page)).toContain('<!doctype html>')
    } finally {
      program.kill()
    }
  })

  it.skipIf(!canBeHandler)(
    `has handlers that serve without being root${canBeHandler ? '' : NEEDS_ROOT}`,
    async () => {
      const sockets = path.join(directory, 'g')
      const simulated = await SimulatedAgent.start({ directory: sockets })
      for (const open of [path.dirname(directory), directory]) await chmod(open, 0o755)
      await chmod(sockets, 0o755)
      const program = path.join(app, 'node_modules/@akrijs/sdk/dist/akri-handler.js')
      const handler = spawn(
        process.execPath,
        [program, '@akrijs/handler-debug-echo', '--directory', sockets],
        { cwd: app, env: {}, ...HANDLER, stdio: ['ignore', 'ignore', 'pipe'] },
      )
      const ended = new Promise((resolve) => handler.once('exit', resolve))
      try {
        const [line] = await once(handler.stderr, 'data')
        expect(String(line)).toContain('directory of sockets not writable')
        for (const file of [sockets, path.join(sockets, 'agent-registration.sock')])
          await chown(file, 0, HANDLER.gid)
        await chmod(path.join(sockets, 'agent-registration.sock'), 0o660)
        await chmod(sockets, 0o1770)
        const echo = await simulated.discover('debugEcho', { details: 'descriptions: [foo0]' })
        expect(await echo.next()).toMatchObject([{ id: 'foo0' }])
        await echo.close()
      } finally {
        handler.kill()
        await ended
        await simulated.close()
      }
    },
  )

  it('has handlers that serve on their own', async () => {
    const sockets = path.join(directory, 's')
    const simulated = await SimulatedAgent.start({ directory: sockets })
    const program = path.join(app, 'node_modules/@akrijs/sdk/dist/akri-handler.js')
    const names = builtIn.handlers.map((handler) => handler.package)
    const camera = await SimulatedCamera.start()
    const server = await SimulatedServer.start()
    const { POD_IP: _none, ...env } = process.env
    const handlers = spawn(process.execPath, [program, ...names, '--directory', sockets], {
      cwd: app,
      env,
      stdio: 'ignore',
    })
    const ended = new Promise((resolve) => handlers.once('exit', resolve))
    try {
      const echo = await simulated.discover('debugEcho', { details: 'descriptions: [foo0]' })
      expect(await echo.next()).toMatchObject([{ id: 'foo0' }])
      const udev = await simulated.discover('udev', { details: 'udevRules: [KERNEL=="null"]' })
      expect(await udev.next()).toMatchObject([{ id: '/devices/virtual/mem/null' }])
      const details = { interfaces: ['lo'], uuids: { items: [camera.uuid] } }
      const onvif = await simulated.discover('onvif', { details: JSON.stringify(details) })
      expect(await onvif.next()).toMatchObject([{ id: `${camera.service.url}-${camera.uuid}` }])
      const standard = { discoveryUrls: [server.url] }
      const opcua = await simulated.discover('opcua', {
        details: JSON.stringify({ opcuaDiscoveryMethod: { standard } }),
      })
      expect(await opcua.next()).toMatchObject([{ id: server.url }])
      // Only an optional layer of the image has node-opcua.
      const detailed = JSON.stringify({ opcuaDiscoveryMethod: { standard }, serverDetails: true })
      const session = await simulated.discover('opcua', { details: detailed })
      await expect(session.next()).rejects.toThrow('target with-opcua-client')
      const mdns = await simulated.discover('mdns', {
        details: 'services: [_akri-test._tcp]',
      })
      expect(await mdns.next()).toEqual([])
      const mqtt = await simulated.discover('mqtt', {
        details: '{ broker: "mqtt://127.0.0.1:1", homie: {} }',
      })
      await expect(mqtt.next()).rejects.toThrow('the broker mqtt://127.0.0.1:1 cannot be used')
      await Promise.all([echo, udev, onvif, opcua, mdns].map((session) => session.close()))
    } finally {
      handlers.kill()
      await ended
      await Promise.all([simulated, camera, server].map((peer) => peer.close()))
    }
  })

  it('lists USB devices with the layer of its platform, and says that it is missing', async () => {
    const image = path.join(directory, 'with-usb')
    await imageTrees(image, 'handlers')
    const simulated = await SimulatedAgent.start({ directory: path.join(directory, 'u') })
    const program = 'node_modules/@akrijs/sdk/dist/akri-handler.js'
    const args = [program, '@akrijs/handler-usb', '--directory', simulated.directory]
    const options = { cwd: path.join(image, 'handlers/app'), env: {}, stdio: 'ignore' } as const
    const handler = spawn(process.execPath, args, options)
    const ended = new Promise((resolve) => handler.once('exit', resolve))
    try {
      const without = await simulated.discover('usb', { details: '{}' })
      await expect(without.next()).rejects.toThrow(
        `no binary for ${process.platform}-${process.arch} can be loaded`,
      )
      await addUsbBinary(image, 'handlers')
      const session = await simulated.discover('usb', { details: '{}' })
      expect(await session.next()).toBeInstanceOf(Array)
      await session.close()
    } finally {
      handler.kill()
      await ended
      await simulated.close()
    }
  })

  it('opens sessions with OPC UA servers with the optional layer', async () => {
    const image = path.join(directory, 'with-client')
    await opcuaClientTree(image)
    const simulated = await SimulatedAgent.start({ directory: path.join(directory, 'o') })
    const server = await SecuredServer.start({ applicationUri: 'urn:akri:test:layer' })
    const program = 'node_modules/@akrijs/sdk/dist/akri-handler.js'
    const args = [program, '@akrijs/handler-opcua', '--directory', simulated.directory]
    // As in its Pod, the handler can write nowhere.
    const handler = spawn(process.execPath, args, {
      cwd: path.join(image, 'all/app'),
      env: { HOME: '/nonexistent', TMPDIR: '/nonexistent' },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    const ended = new Promise((resolve) => handler.once('exit', resolve))
    try {
      const standard = { discoveryUrls: [server.url] }
      const session = await simulated.discover('opcua', {
        details: JSON.stringify({ opcuaDiscoveryMethod: { standard }, serverDetails: true }),
      })
      // On a busy machine, the first list can come before the first session.
      let properties: Device['properties'] = {}
      while (properties.OPCUA_SERVER_DETAILS === undefined)
        properties = (await session.next(120_000))[0]?.properties ?? {}
      expect(properties).toMatchObject({
        OPCUA_SERVER_DETAILS: 'anonymous',
        OPCUA_PRODUCT_NAME: 'Mixer',
      })
      await session.close()
    } finally {
      handler.kill()
      await ended
      await Promise.all([simulated.close(), server.close()])
    }
  })

  it('has an optional layer that is always the same, with its licences and bill', async () => {
    const outputs = await Promise.all(
      ['l1', 'l2'].map((name) => imageTrees(path.join(directory, name), 'with-opcua-client')),
    )
    const [one, two] = outputs.map((text) => /sha256:[0-9a-f]{64}$/m.exec(text)?.[0])
    expect(one).toBeDefined()
    expect(two).toBe(one)
    const layer = path.join(directory, 'l1/with-opcua-client/app')
    const { components }: { components: { purl?: string }[] } = JSON.parse(
      await readFile(path.join(layer, 'sbom.cdx.json'), 'utf8'),
    )
    const purls = components.map(({ purl }) => purl)
    // The programs are in the layer below.
    expect(purls).toContainEqual(expect.stringMatching(/^pkg:npm\/pino@/))
    const files = await readdir(layer, { recursive: true })
    expect(files.filter((file) => /\.(d\.ts|map)$/.test(file))).toEqual([])
    const packages = files.filter((file) =>
      /(^|\/)node_modules\/(@[^/]+\/)?[^/]+\/package\.json$/.test(file),
    )
    expect(packages.length).toBeGreaterThan(100)
    for (const file of packages) {
      const { name, version } = JSON.parse(await readFile(path.join(layer, file), 'utf8'))
      expect(purls).toContain(`pkg:npm/${name.replace('@', '%40')}@${version}`)
      const inside = await readdir(path.join(layer, path.dirname(file)))
      expect([file, inside.some((name) => /^(un)?licen[cs]e|^readme/i.test(name))]).toEqual([
        file,
        true,
      ])
    }
  })
})

async function textOf(stream: AsyncIterable<unknown>): Promise<string> {
  let text = ''
  for await (const chunk of stream) text += String(chunk)
  return text
}
