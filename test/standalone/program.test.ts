import { execFileSync } from 'node:child_process'
import { constants, existsSync } from 'node:fs'
import { mkdir, open, readFile, rm } from 'node:fs/promises'
import path from 'node:path'
import type { Instance } from '@akrijs/api'
import { describe, expect, it } from 'vitest'
import { eventually } from '../support/eventually.js'
import { AkriProgram } from './support/akri-program.js'
import { configuration, nullDevice } from './support/manifests.js'
import { isAlive } from './support/processes.js'

const akri = AkriProgram.ofEachTest()

describe('akri run', () => {
  it('prints what a restart finds again, why there is no device, and a deleted file', async () => {
    await mkdir(path.join(akri.directory, 'files'))
    const broker = '[/bin/sh, -c, exec sleep 1000]'
    const nulls = configuration('nulls', nullDevice(broker))
    const none = configuration('none', nullDevice(broker).replace('"null"', '"no"'))
    const file = await akri.write('files/nulls.yaml', nulls)
    await akri.write('files/none.yaml', none)
    const begin = async () => {
      const before = akri.output.length
      akri.start('-f', path.join(akri.directory, 'files'))
      await eventually(() =>
        expect(akri.output.slice(before)).toMatch(
          /no devices found configuration=default\/none reason="0 devices; the handler saw none; /,
        ),
      )
      await eventually(() => expect(akri.output.slice(before)).toMatch(/broker started/))
    }
    await begin()
    expect(akri.output).not.toContain('instance restored')
    await akri.stop('SIGINT')
    await begin()
    expect(akri.output).toMatch(/instance restored instance=nulls-\w+ device=\/dev\/null/)
    await akri.write('files/nulls.yaml', nulls.replace('"null"', '"zero"'))
    await eventually(() => expect(akri.output).toMatch(/device in use lost/))
    await rm(file)
    await eventually(() =>
      expect(akri.output).toContain(
        `configuration removed configuration=default/nulls file=${file}`,
      ),
    )
    expect(akri.output).not.toMatch(/\bPods?\b/)
  })

  it('R49 R90 R106 R113 runs a broker with its environment, and leaves nothing', async () => {
    const file = await akri.write(
      'a.yaml',
      configuration('nulls', nullDevice(`[/bin/sh, -c, 'env; echo printed; exec sleep 1000']`)),
    )
    akri.start('-f', file)
    await eventually(() => expect(akri.output).toContain('] printed'))
    const names = [...akri.output.matchAll(/^\[nulls-[0-9a-f]{6}] (\w+)=/gm)].map(
      ([, name]) => name,
    )
    const list = JSON.parse(await akri.ask('get', 'instances', '-o', 'json'))
    const [instance]: Instance[] = list.items
    const digest = String(instance?.metadata.name.slice(-6)).toUpperCase()
    const allocated = [
      'UDEV_DEVPATH',
      'UDEV_DEVNODE',
      'SITE',
      'AKRI_BROKER_INFO_DIRECTORY',
    ].flatMap((name) => [name, `${name}_${digest}`])
    const ofEveryProcess = ['PATH', 'HOME', 'LANG', 'TMPDIR', 'TZ', 'PWD', 'OLDPWD', 'SHLVL', '_']
    expect(names.filter((name) => !ofEveryProcess.includes(name ?? '')).sort()).toEqual(
      [...allocated].sort(),
    )
    expect(Object.values(instance?.spec.deviceUsage ?? {})).toEqual(['node-a', ''])

    // A broker that ends is started again, with its slot.
    const [first = 0] = await akri.brokers()
    process.kill(first, 'SIGKILL')
    const pid = await eventually(async () => {
      const [next = first] = await akri.brokers()
      expect(next).not.toBe(first)
      return next
    })
    await eventually(() => expect(akri.output.match(/\] printed/g)).toHaveLength(2))
    expect(akri.output).toMatch(/broker not running .*SIGKILL/)
    const [again] = await akri.instances()
    expect(again?.spec.deviceUsage).toEqual(instance?.spec.deviceUsage)
    expect(await akri.stop('SIGINT')).toBe(0)
    expect(isAlive(pid)).toBe(false)
    const kept = JSON.parse(await readFile(path.join(akri.state, 'cluster.json'), 'utf8')) as {
      state: { instances: Instance[] }
    }
    expect(Object.values(kept.state.instances[0]?.spec.deviceUsage ?? {})).toEqual(['', ''])
  })

  it.each([
    ['SIGINT', 'cluster.json'],
    ['SIGTERM', 'jobs.json'],
  ] as const)(
    'ends by %s also while it starts and its file %s does not answer',
    async (signal, name) => {
      await mkdir(akri.state)
      const file = path.join(akri.state, name)
      execFileSync('mkfifo', [file])
      akri.start(
        '-f',
        await akri.write(
          'a.yaml',
          configuration('nulls', nullDevice(`[/bin/sh, -c, 'exec sleep 1000']`)),
        ),
      )
      // A pipe cannot be opened for writing before a reader opens it, and the reader waits for
      // data.
      const { O_WRONLY, O_NONBLOCK } = constants
      await using _pipe = await eventually(() => open(file, O_WRONLY | O_NONBLOCK))
      expect(await akri.stop(signal)).toBeNull()
    },
  )

  it('--isolated leaves no handler after a kill, and starts handlers after a restart', async () => {
    const names = ['debugEcho', 'udev']
    const sockets = () =>
      names.filter((name) => existsSync(path.join(akri.state, `isolated/${name}.sock`)))
    const begin = async (description: string, digest: string) => {
      const details = `'descriptions: [${description}]'`
      const spec = `  discoveryHandler: { name: debugEcho, discoveryDetails: ${details} }`
      const file = await akri.write('a.yaml', configuration('echo', spec))
      const handlers = '@akrijs/handler-debug-echo,@akrijs/handler-udev'
      const before = akri.output.length
      akri.start('-f', file, '--isolated', '--handler', handlers)
      const found = async () => (await akri.instances()).map(({ metadata }) => metadata.name)
      await eventually(async () => expect(await found()).toEqual([`echo-${digest}`]))
      // The agent says so, and then the handler.
      const registered = () => akri.output.slice(before).match(/ handler registered /g)
      await eventually(() => expect(registered()).toHaveLength(2 * names.length))
      expect(akri.handlers).toHaveLength(names.length)
      return akri.handlers
    }
    const first = await begin('foo0', '8120fe')
    expect(sockets()).toEqual(names)
    await akri.stop('SIGKILL')
    await eventually(() => expect(first.filter(isAlive)).toEqual([]))
    expect(sockets()).toEqual([])
    const second = await begin('foo1', 'a19705')
    const before = akri.output.length
    expect(await akri.stop('SIGTERM')).toBe(0)
    expect([second.filter(isAlive), sockets()]).toEqual([[], []])
    // It ends in order while its handlers work.
    expect(akri.output.slice(before)).toContain('agent stopped')
    expect(akri.output.slice(before)).not.toMatch(/ (warn|error) /)
  })

  it('ends at once after a second signal, and leaves no broker', async () => {
    const stubborn = `[/bin/sh, -c, 'trap "" TERM INT; echo deaf; while :; do sleep 1; done']`
    akri.start('-f', await akri.write('a.yaml', configuration('nulls', nullDevice(stubborn))))
    await eventually(() => expect(akri.output).toContain('deaf'))
    const [broker = 0] = await akri.brokers()
    const agent = akri.pid ?? 0
    const ended = akri.stop('SIGINT')
    await eventually(() => {
      if (isAlive(agent)) process.kill(agent, 'SIGINT')
      expect(isAlive(agent)).toBe(false)
    })
    // An end in order has exit code 0, after the time limit of the broker.
    expect(await ended).toBeNull()
    await eventually(() => expect(isAlive(broker)).toBe(false))
  })

  it('reports a problem in a file with place and reason, and goes on', async () => {
    const echo = (more = '') =>
      `  discoveryHandler: { name: debugEcho, discoveryDetails: 'descriptions: [foo0]' }\n${more}`
    const details = `'udevRules: [KERNEL="null"]'`
    const udev = `  discoveryHandler: { name: udev, discoveryDetails: ${details} }`
    const containers = '[{ command: [/no/such/program] }]'
    for (const [name, spec] of [
      ['good', echo()],
      ['rule', udev],
      ['handler', '  discoveryHandler: { name: none-such }'],
      ['command', echo(`  brokerSpec: { brokerPodSpec: { containers: ${containers} } }`)],
    ] as const)
      await akri.write(`${name}.yaml`, configuration(name, spec))
    await akri.write('yaml.yaml', 'kind: [')
    const handlers = '@akrijs/handler-udev,@akrijs/handler-debug-echo,none-such,udef'
    akri.start('-f', akri.directory, '--handler', handlers)
    await eventually(async () =>
      expect((await akri.instances()).map(({ spec }) => spec.configurationName).sort()).toEqual([
        'command',
        'good',
      ]),
    )
    const noCommand =
      /error .*command\.yaml.*containers\[0]\.command\[0].*\/no\/such\/program does not exist/
    const place = `where ${process.cwd()} can find it; run npm install none-such`
    await eventually(() => {
      expect(akri.output).toMatch(noCommand)
      expect(akri.output).toMatch(/rule\.yaml.*discoveryDetails.*udevRules\[0\].*line 1, column/)
      expect(akri.output).toMatch(/handler\.yaml.*discoveryHandler\.name.*no handler none-such/)
      expect(akri.output).toContain(place)
      expect(akri.output).toContain('there is no handler udef; did you mean udev?')
      expect(akri.output).toMatch(/yaml\.yaml line=1 column=8 error="it is not YAML/)
    })
    await eventually(async () => {
      const table = await akri.ask('get', 'configurations')
      expect(table).toMatch(/rule .*InvalidDetails: .*udevRules\[0\].*line 1, column/)
      expect(table).toMatch(/handler .*NoHandler: no handler none-such/)
    })
    const described = await akri.ask('describe', 'configuration', 'rule')
    expect(described).toMatch(
      /InvalidDetails .*udevRules\[0\].*line 1, column.*\n +\| +KERNEL="null"\n +\| +\^/,
    )
    expect(described).toMatch(/^\S+ +Warning +InvalidDetails .*udevRules/m)
    expect(described).not.toContain('\u{fffd}')
  })
})
